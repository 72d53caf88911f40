// Stands in for cuRAND's device header. CUTLASS's test utilities, which FlashInfer's dense GEMMs include, fill
// tensors with it; no kernel of a survey does. The package that carries the real one weighs 60 MB.
#pragma once

struct curandState {};
typedef curandState curandState_t;

__host__ __device__ void curand_init(unsigned long long, unsigned long long, unsigned long long, curandState_t*);
__host__ __device__ float curand_uniform(curandState_t*);
__host__ __device__ float curand_normal(curandState_t*);
__host__ __device__ double curand_uniform_double(curandState_t*);
__host__ __device__ double curand_normal_double(curandState_t*);
