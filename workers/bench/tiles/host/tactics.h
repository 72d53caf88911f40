// The last part of the program that lists a version's tactics. Called as: PROGRAM SM ASKED, where SM is the
// compute capability of the device, e.g. 120. The file ASKED holds configurations, one a line, to send through
// the dispatch: FAMILY SM M N K_BYTES CLUSTER_M CLUSTER_N CLUSTER_K EPILOGUE DYNAMIC FUSION SWAP
//
// Standard output, fields apart by tabs:
//   offer FAMILY GEMM ID KIND OUTCOME…  a tactic; KIND is tma or other (kernels of older architectures)
//   refused FAMILY GEMM TEXT            the heuristic threw
//   answer OUTCOME…                     one a configuration of ASKED, in their order
// OUTCOME is `never TEXT`, what the dispatch threw, or
//   `reached ARCH M N K CLUSTER_M CLUSTER_N CLUSTER_K SCHEDULE FUSION MX DYNAMIC SWAP`;
// an offer's fields before it: TILE_M TILE_N K_BYTES CLUSTER_M CLUSTER_N CLUSTER_K SM EPILOGUE DYNAMIC FUSION SWAP.
//
// Before 0.5.3 (TILEWATCH_ONE_LIST) both GEMMs shared one list without fusion, operands were always swapped, and a
// tile's enum did not tell its extents: those are known of a tile that is dispatched, else written as 0.
#pragma once

#include <fstream>
#include <iostream>

namespace tilewatch {

namespace kernels = tensorrt_llm::kernels::cutlass_kernels;
namespace extensions = tensorrt_llm::cutlass_extensions;
using Config = extensions::CutlassGemmConfig;
using Input = kernels::TmaWarpSpecializedGroupedGemmInput;
using Fusion = Input::EpilogueFusion;
using Scaling = Input::FpXBlockScalingType;

inline std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t' || c == '\r') c = '\x1f';
  return text;
}

template <class T, class Weight, class Output, Scaling SCALING, class Runner_>
struct Family {
  using Runner = Runner_;
  static void dispatch(Config const& config, Fusion fusion, bool swap) {
    Input input{};
    input.fpX_block_scaling_type = SCALING;
#ifdef TILEWATCH_ONE_LIST
    namespace oss = kernels;
#else
    namespace oss = tensorrt_llm::kernels::cutlass_kernels_oss;
    input.swap_ab = swap;
#endif
    input.fusion = fusion;
    size_t workspace = 0;  // asked for instead of a launch: the input then need not be valid
    auto select = fusion == Fusion::FINALIZE
                      ? &oss::dispatchMoeGemmSelectTileShapeTmaWarpSpecialized<
                            T, Weight, Output, extensions::EpilogueOpDefault, Fusion::FINALIZE>
                      : &oss::dispatchMoeGemmSelectTileShapeTmaWarpSpecialized<
                            T, Weight, Output, extensions::EpilogueOpDefault, Fusion::NONE>;
    select(input, 8, config, 128, cudaStream_t{}, nullptr, &workspace);
  }
};

inline char const* fusion_name(int fusion) {
  return fusion == int(Fusion::FINALIZE) ? "finalize" : fusion == int(Fusion::NONE) ? "none" : "other";
}

template <class F>
void outcome(Config const& config, Fusion fusion, bool swap) {
  reached = {};
  try {
    F::dispatch(config, fusion, swap);
  } catch (std::exception const& error) {
    std::cout << "never\t" << one_line(error.what()) << '\n';
    return;
  }
  if (!reached.any) {
    std::cout << "never\tThe dispatch ends without a launcher.\n";
    return;
  }
  Reached const& r = reached;
  std::cout << "reached\t" << r.arch << '\t' << r.m << '\t' << r.n << '\t' << r.k << '\t' << r.cluster_m << '\t'
            << r.cluster_n << '\t' << r.cluster_k << '\t' << r.schedule << '\t' << fusion_name(r.fusion) << '\t'
            << r.mx << '\t' << r.dynamic << '\t' << r.swap << '\n';
}

#ifdef TILEWATCH_ONE_LIST
inline char const* epilogue_name(extensions::EpilogueScheduleType) { return "auto"; }
#else
inline char const* epilogue_name(extensions::EpilogueScheduleType schedule) {
  using Schedule = extensions::EpilogueScheduleType;
  return schedule == Schedule::TMA ? "tma" : schedule == Schedule::NO_SMEM ? "nosmem" : "auto";
}
#endif

template <class Enum>
void write_shape(Enum value) {
#ifdef TILEWATCH_ONE_LIST
  int const m = 0, n = 0, k = 0;
#else
  auto const [m, n, k] = extensions::enum_to_shape_tuple(value);
#endif
  std::cout << m << '\t' << n << '\t' << k << '\t';
}

template <class F>
void offers(char const* name, int sm) {
  int id = 0;
  for (int gemm : {1, 2}) {
    std::vector<Config> configs;
    try {  // the rule of CutlassMoeFCRunner::getTactics and mayHaveFinalizeFused, whose text was compared
#ifdef TILEWATCH_ONE_LIST
      id = 0;
      configs = F::Runner::getConfigs(sm);
#else
      bool const finalize = gemm == 2 && F::Runner::supportsTmaWarpSpecialized(sm) && sm >= 90;
      configs = F::Runner::getConfigs(sm, finalize);
#endif
    } catch (std::exception const& error) {
      std::cout << "refused\t" << name << '\t' << gemm << '\t' << one_line(error.what()) << '\n';
    }
    for (Config const& config : configs) {
      if (!config.is_tma_warp_specialized) {
#ifdef TILEWATCH_FILTERS_MXFP8
        if constexpr (F::Runner::use_mxfp8) continue;  // the rule of filterMxfp8Tactics
#endif
        std::cout << "offer\t" << name << '\t' << gemm << '\t' << id++ << "\tother\n";
        continue;
      }
      std::cout << "offer\t" << name << '\t' << gemm << '\t' << id++ << "\ttma\t";
      if (config.sm_version == 90) write_shape(config.tile_config_sm90);
      else if (config.sm_version >= 120) write_shape(config.tile_config_sm120);
      else write_shape(config.tile_config_sm100);
      write_shape(config.cluster_shape);
#ifdef TILEWATCH_ONE_LIST
      bool const finalize = false, dynamic = false, swap = true;
#else
      bool const finalize = config.epilogue_fusion_type == Config::EpilogueFusionType::FINALIZE;
      bool const dynamic = config.dynamic_cluster_shape != extensions::ClusterShape::Undefined;
      bool const swap = config.swap_ab;
#endif
      std::cout << config.sm_version << '\t' << epilogue_name(config.epilogue_schedule) << '\t' << dynamic << '\t'
                << (finalize ? "finalize" : "none") << '\t' << swap << '\t';
      outcome<F>(config, finalize ? Fusion::FINALIZE : Fusion::NONE, swap);
    }
  }
}

struct Question {
  int sm, m, n, k, cluster_m, cluster_n, cluster_k;
  std::string epilogue;
  bool dynamic;
  std::string fusion;
  bool swap;
};

template <class F>
void answer(Question const& q) {
#ifdef TILEWATCH_ONE_LIST
  std::cout << "answer\tnever\tNo tactic of this version asks for it, and its dispatch cannot be asked.\n";
#else
  using Cluster = extensions::ClusterShape;
  int const tile = extensions::shape_tuple_to_enum(q.m, q.n, q.k);
  auto const cluster = static_cast<Cluster>(extensions::shape_tuple_to_enum(q.cluster_m, q.cluster_n, q.cluster_k));
  auto const epilogue = q.epilogue == "tma"      ? extensions::EpilogueScheduleType::TMA
                        : q.epilogue == "nosmem" ? extensions::EpilogueScheduleType::NO_SMEM
                                                 : extensions::EpilogueScheduleType::AUTO;
  Config config;
  config.tile_config_sm90 = static_cast<extensions::CutlassTileConfigSM90>(tile);
  config.tile_config_sm100 = static_cast<extensions::CutlassTileConfigSM100>(tile);
  config.tile_config_sm120 = static_cast<extensions::CutlassTileConfigSM120>(tile);
  config.epilogue_schedule = epilogue;
  config.cluster_shape = cluster;
  config.dynamic_cluster_shape = q.dynamic ? Cluster::ClusterShape_1x1x1 : Cluster::Undefined;
  config.sm_version = q.sm;
  config.is_tma_warp_specialized = true;
  config.swap_ab = q.swap;
  std::cout << "answer\t";
  outcome<F>(config, q.fusion == "finalize" ? Fusion::FINALIZE : Fusion::NONE, q.swap);
#endif
}

template <class T, class Weight, class Output>
using PlainRunner = kernels::MoeGemmRunner<T, Weight, Output>;

// What the survey knows, by the names of its input types; TILEWATCH_FAMILIES says which of them are built.
using nvfp4xnvfp4 =
    Family<TILEWATCH_FP4, TILEWATCH_FP4, half, Scaling::NVFP4, PlainRunner<TILEWATCH_FP4, TILEWATCH_FP4, half>>;
using mxfp8xmxfp4 =
    Family<__nv_fp8_e4m3, TILEWATCH_FP4, half, Scaling::MXFPX, PlainRunner<__nv_fp8_e4m3, TILEWATCH_FP4, half>>;
using fp8xfp8 =
    Family<__nv_fp8_e4m3, __nv_fp8_e4m3, half, Scaling::NONE, PlainRunner<__nv_fp8_e4m3, __nv_fp8_e4m3, half>>;
using bf16xbf16 = Family<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, Scaling::NONE,
                         PlainRunner<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16>>;
#ifdef TILEWATCH_RUNNER_KNOWS_MX
using mxfp8xmxfp8 = Family<__nv_fp8_e4m3, __nv_fp8_e4m3, half, Scaling::MXFPX,
                           kernels::MoeGemmRunner<__nv_fp8_e4m3, __nv_fp8_e4m3, half, half, true>>;
#endif

}  // namespace tilewatch

int main(int argc, char** argv) {
  using namespace tilewatch;
  if (argc != 3) return 2;
  std::ifstream asked(argv[2]);
  int const sm = std::stoi(argv[1]);
#define TILEWATCH_OFFERS(inputs) offers<inputs>(#inputs, sm);
  TILEWATCH_FAMILIES(TILEWATCH_OFFERS)
  std::string family;
  Question q;
  while (asked >> family >> q.sm >> q.m >> q.n >> q.k >> q.cluster_m >> q.cluster_n >> q.cluster_k >>
         q.epilogue >> q.dynamic >> q.fusion >> q.swap) {
    bool known = false;
#define TILEWATCH_ANSWER(inputs) \
  if (family == #inputs) known = true, answer<inputs>(q);
    TILEWATCH_FAMILIES(TILEWATCH_ANSWER)
    if (!known) std::cout << "answer\tnever\tThe version has no runner for " << family << ".\n";
  }
  return 0;
}
