#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "flashinfer/gemm/cutlass_gemm_configs.h"

namespace flashinfer {
namespace gemm {
enum class FP4GemmType { W4A4_NVFP4_NVFP4 };

template <typename T, FP4GemmType type>
struct CutlassFp4GemmRunner {
  std::vector<CutlassGemmConfig> getConfigs() const;
  void gemm(void* D, void const* A, void const* B, void const* input_sf, void const* weight_sf,
            float const* global_sf, int m, int n, int k, int batch_count, CutlassGemmConfig config,
            char* workspace, size_t workspace_bytes, cudaStream_t stream);
};
}  // namespace gemm
}  // namespace flashinfer
