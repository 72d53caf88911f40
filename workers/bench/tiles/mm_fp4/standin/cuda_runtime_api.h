// Stands in for CUDA's header where only the list of tactics and its switch are compiled.
#pragma once
typedef struct CUstream_st* cudaStream_t;
