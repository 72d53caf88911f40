#pragma once
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "flashinfer/gemm/fp4_gemm_cutlass.h"
#include "fp4_gemm_template_sm120.h"

namespace flashinfer {
namespace gemm {
using namespace cute;

template <typename T, FP4GemmType type>
void CutlassFp4GemmRunner<T, type>::gemm(void* D, void const* A, void const* B, void const* input_sf,
                                         void const* weight_sf, float const* global_sf, int m, int n, int k,
                                         int batch_count, CutlassGemmConfig config, char* workspace,
                                         size_t workspace_bytes, cudaStream_t stream) {
#define LAUNCH(M, N, K, SWAP)                                                                          \
  config.use_stream_k                                                                                  \
      ? genericFp4GemmKernelLauncherStreamK<T, Int<M>, Int<N>, Int<K>, _1, _1, _1, _1SM, SWAP>(        \
            D, A, B, input_sf, weight_sf, global_sf, m, n, k, batch_count, config, workspace,          \
            workspace_bytes, stream, nullptr)                                                          \
      : genericFp4GemmKernelLauncher<T, Int<M>, Int<N>, Int<K>, _1, _1, _1, _1SM, SWAP>(               \
            D, A, B, input_sf, weight_sf, global_sf, m, n, k, batch_count, config, workspace,          \
            workspace_bytes, stream, nullptr)
  switch (config.tile_config_sm120) {
    case CutlassTileConfigSM120::CtaShape128x128x64B:
      config.swap_ab ? LAUNCH(128, 128, 128, true) : LAUNCH(128, 128, 128, false);
      return;
    case CutlassTileConfigSM120::CtaShape256x128x64B:
      LAUNCH(256, 128, 128, false);
      return;
    default:
      throw std::runtime_error("Config is invalid\nfor FP4 GEMM.");
  }
#undef LAUNCH
}

template <typename T, FP4GemmType type>
std::vector<CutlassGemmConfig> CutlassFp4GemmRunner<T, type>::getConfigs() const {
  std::vector<CutlassGemmConfig> configs(4);
  configs[0].tile_config_sm120 = CutlassTileConfigSM120::CtaShape128x256x64B;
  configs[1].tile_config_sm120 = CutlassTileConfigSM120::CtaShape128x128x64B;
  configs[2] = configs[1];
  configs[2].swap_ab = true;
  configs[3] = configs[2];
  configs[3].use_stream_k = true;
  return configs;
}
}  // namespace gemm
}  // namespace flashinfer
