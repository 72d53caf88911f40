// Asks a FlashInfer version which tactics its mm_fp4 runner offers and which kernel each one launches.
//
// Compiled on the host against the version's own runner, TEMPLATE_HEADER; the headers below it that define kernels
// are left out by their include guards, and what they would define stands here: launchers that print instead of
// launching. A line each:
//   tactic ID TILE_ENUMERATOR CLUSTER_ENUMERATOR SWAP STREAM_K
//   kernel ID M N K CLUSTER_M CLUSTER_N CLUSTER_K SMS SWAP STREAM_K STORE256
//   refused ID MESSAGE
//   reached M N K …   as in kernel: one that the switch launches for some configuration, listed or not
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flashinfer/gemm/cutlass_gemm_configs.h"

namespace tilewatch {
constexpr int enumerators = 64;  // more than a tile or cluster enumeration has
inline int tactic = 0;
inline std::set<std::string>* reached = nullptr;

template <class M, class N, class K, class CM, class CN, class CK>
std::size_t report(int sms, bool swap_ab, bool stream_k, bool store256) {
  char line[160];
  std::snprintf(line, sizeof line, "%d %d %d %d %d %d %d %d %d %d", M::value, N::value, K::value, CM::value,
                CN::value, CK::value, sms, swap_ab, stream_k, store256);
  if (reached != nullptr) {
    reached->insert(line);
  } else {
    std::printf("kernel %d %s\n", tactic, line);
  }
  return 0;
}

// Members that older configurations lack.
template <class Config, class = void>
struct SwapAb {
  static bool of(Config const&) { return false; }
  static void set(Config&, bool) {}
};
template <class Config>
struct SwapAb<Config, std::void_t<decltype(std::declval<Config>().swap_ab)>> {
  static bool of(Config const& config) { return config.swap_ab; }
  static void set(Config& config, bool value) { config.swap_ab = value; }
};
template <class Config, class = void>
struct StreamK {
  static bool of(Config const&) { return false; }
  static void set(Config&, bool) {}
};
template <class Config>
struct StreamK<Config, std::void_t<decltype(std::declval<Config>().use_stream_k)>> {
  static bool of(Config const& config) { return config.use_stream_k; }
  static void set(Config& config, bool value) { config.use_stream_k = value; }
};
}  // namespace tilewatch

#define LAUNCHER_ARGUMENTS                                                                                    \
  void *, void const *, void const *, void const *, void const *, float const *, int, int, int, int,         \
      CutlassGemmConfig, char *, std::size_t const, cudaStream_t, int *

#include <cuda_runtime_api.h>

namespace flashinfer {
namespace gemm {
struct _1SM {
  static constexpr int sms = 1;
};
struct _2SM {
  static constexpr int sms = 2;
};
struct _1SM_sm103 {
  static constexpr int sms = 1;
};
struct _2SM_sm103 {
  static constexpr int sms = 2;
};

template <class T, class M, class N, class K, class CM, class CN, class CK, class X, bool Swap = false>
std::size_t genericFp4GemmKernelLauncher(LAUNCHER_ARGUMENTS) {
  return tilewatch::report<M, N, K, CM, CN, CK>(X::sms, Swap, false, false);
}
template <class T, class M, class N, class K, class CM, class CN, class CK, class X, bool Swap = false>
std::size_t genericFp4GemmKernelLauncherStreamK(LAUNCHER_ARGUMENTS) {
  return tilewatch::report<M, N, K, CM, CN, CK>(X::sms, Swap, true, false);
}
template <class T, class M, class N, class K, class CM, class CN, class CK, class X>
std::size_t genericFp4UltraGemmKernelLauncher(LAUNCHER_ARGUMENTS) {
  return tilewatch::report<M, N, K, CM, CN, CK>(X::sms, false, false, false);
}
}  // namespace gemm
}  // namespace flashinfer

#include TEMPLATE_HEADER

#ifdef HAS_STORE256
namespace flashinfer {
namespace gemm {
namespace sm103_generic_store256 {
template <class T, class M, class N, class K, class CM, class CN, class CK, class X>
std::size_t genericFp4GemmKernelLauncher(LAUNCHER_ARGUMENTS) {
  constexpr int sms = std::is_same_v<X, _2SM> ? 2 : 1;
  return tilewatch::report<M, N, K, CM, CN, CK>(sms, false, false, true);
}
}  // namespace sm103_generic_store256
}  // namespace gemm
}  // namespace flashinfer
#endif

struct Output {  // as wide as the f16 and bf16 that the runner is made for
  std::uint16_t bits;
};

using namespace flashinfer::gemm;
using Config = CutlassGemmConfig;
using Runner = CutlassFp4GemmRunner<Output, FP4GemmType::W4A4_NVFP4_NVFP4>;

// Without any pointer every kernel that the configuration may lead to is asked for its workspace.
void launch(Runner& runner, Config const& config) {
  runner.gemm(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 1, 1, 1, 1, config, nullptr, 0, nullptr);
}

int main() {
  Runner runner;
  std::vector<Config> const configs = runner.getConfigs();
  for (Config const& config : configs) {
    std::printf("tactic %d %d %d %d %d\n", tilewatch::tactic, config.getTileConfigAsInt(),
                static_cast<int>(config.cluster_shape), tilewatch::SwapAb<Config>::of(config),
                tilewatch::StreamK<Config>::of(config));
    try {
      launch(runner, config);
    } catch (std::exception const& error) {
      std::string said = error.what();
      std::replace(said.begin(), said.end(), '\n', ' ');
      std::printf("refused %d %s\n", tilewatch::tactic, said.c_str());
    }
    ++tilewatch::tactic;
  }
  std::set<std::string> reached;
  tilewatch::reached = &reached;
  for (int each = 0; each < tilewatch::enumerators * tilewatch::enumerators * 4 && !configs.empty(); ++each) {
    Config config = configs.front();
    int const tile = each / 4 / tilewatch::enumerators;
    config.tile_config_sm100 = static_cast<CutlassTileConfigSM100>(tile);
    config.tile_config_sm120 = static_cast<CutlassTileConfigSM120>(tile);
    config.cluster_shape = static_cast<ClusterShape>(each / 4 % tilewatch::enumerators);
    tilewatch::SwapAb<Config>::set(config, each & 1);
    tilewatch::StreamK<Config>::set(config, each & 2);
    try {
      launch(runner, config);
    } catch (std::exception const&) {
    }
  }
  for (std::string const& line : reached) {
    std::printf("reached %s\n", line.c_str());
  }
}
