#pragma once
#include "cute/tensor.hpp"

namespace flashinfer {
namespace gemm {
enum class CutlassTileConfigSM100 { Undefined, CtaShape128x64x128B };
enum class CutlassTileConfigSM120 {
  Undefined,  // a comment, with a comma
  ChooseWithHeuristic,
  CtaShape128x128x64B,
  /* a gap */ CtaShape256x128x64B = 7,
  CtaShape128x256x64B,
};
enum class ClusterShape { ClusterShape_1x1x1, ClusterShape_2x1x1 };

struct CutlassGemmConfig {
  CutlassTileConfigSM100 tile_config_sm100 = CutlassTileConfigSM100::Undefined;
  CutlassTileConfigSM120 tile_config_sm120 = CutlassTileConfigSM120::Undefined;
  ClusterShape cluster_shape = ClusterShape::ClusterShape_1x1x1;
  bool swap_ab = false;
  bool use_stream_k = false;
  int getTileConfigAsInt() const { return static_cast<int>(tile_config_sm120); }
};
}  // namespace gemm
}  // namespace flashinfer
