// Stands first on the include path and takes the place of CUTLASS's header of the same name.
//
// Every CUTLASS 3.x kernel that an unmodified source launches is an instantiation of
// cutlass::device_kernel. This one has no body: it writes what its Operator's types say into the PTX,
// one comment line a kernel, `// tilewatch key=value …`. All values are integers; sizes are bytes. `carveout`
// is what the mainloop subtracts for the epilogue before it counts its stages.
// Params stay a by-value argument, because completing them is what rejects impossible TMA descriptors.
#pragma once

#define device_kernel tilewatch_real_device_kernel
#include_next <cutlass/device_kernel.h>
#undef device_kernel

#include <cute/tensor.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>
#include <cutlass/numeric_types.h>
#include <type_traits>

namespace cutlass {
namespace tilewatch {

// Element codes; workers.bench.tiles.probe_lines.ELEMENTS names them.
template <class T>
constexpr int element_code() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_void_v<U>) return 0;
  else if constexpr (std::is_same_v<U, float_e2m1_t>) return 1;
  else if constexpr (std::is_same_v<U, float_e4m3_t>) return 2;
  else if constexpr (std::is_same_v<U, half_t>) return 3;
  else if constexpr (std::is_same_v<U, bfloat16_t>) return 4;
  else if constexpr (std::is_same_v<U, float_ue4m3_t>) return 5;
  else if constexpr (std::is_same_v<U, float_ue8m0_t>) return 6;
  else return 99;
}

template <class, class = void>
struct IsTensorOpKernel : std::false_type {};
template <class Operator>
struct IsTensorOpKernel<Operator, std::void_t<typename Operator::CollectiveMainloop,
                                              typename Operator::CollectiveEpilogue>> : std::true_type {};

// The element that a fused epilogue scatters, void where the epilogue has no such output.
template <class, class = void>
struct ScatterElement { using type = void; };
template <class Operation>
struct ScatterElement<Operation, std::enable_if_t<Operation::IsAuxOutSupported>> {
  using type = typename Operation::ElementAux;
};

template <class, class = void>
struct ScaleElement { using type = void; };
template <class Mainloop>
struct ScaleElement<Mainloop, std::void_t<typename Mainloop::ElementSF>> {
  using type = typename Mainloop::ElementSF;
};

// sizeof of a member, 0 where a storage has no member of that name.
#define TILEWATCH_MEMBER_BYTES(member)                                                      \
  template <class, class = void>                                                            \
  struct bytes_##member : std::integral_constant<int, 0> {};                                \
  template <class Storage>                                                                  \
  struct bytes_##member<Storage, std::void_t<decltype(std::declval<Storage&>().member)>>    \
      : std::integral_constant<int, int(sizeof(std::declval<Storage&>().member))> {};
TILEWATCH_MEMBER_BYTES(smem_A)
TILEWATCH_MEMBER_BYTES(smem_B)
TILEWATCH_MEMBER_BYTES(smem_SFA)
TILEWATCH_MEMBER_BYTES(smem_SFB)
TILEWATCH_MEMBER_BYTES(pipelines)
TILEWATCH_MEMBER_BYTES(scheduler_response)
TILEWATCH_MEMBER_BYTES(tensormaps)
#undef TILEWATCH_MEMBER_BYTES

// Blocks along M that share one tile of the tensor cores: 2 of SM100's paired kernels, else 1.
template <class, class = void>
struct BlocksPerTile : std::integral_constant<int, 1> {};
template <class Mainloop>
struct BlocksPerTile<Mainloop, std::void_t<typename Mainloop::AtomThrShapeMNK>>
    : std::integral_constant<int, int(cute::size<0>(typename Mainloop::AtomThrShapeMNK{}))> {};

// Whether the epilogue of an SM100 or SM103 kernel goes straight from tensor to global memory.
template <class Policy>
constexpr int skips_smem() {
  return std::is_same_v<Policy, epilogue::Sm100NoSmem> ||
         std::is_same_v<Policy, epilogue::Sm100PtrArrayNoSmem>;
}

// Extent I of a static shape; 0 where it is chosen at run time.
template <int I, class Shape>
constexpr int extent() {
  if constexpr (cute::is_static<Shape>::value) return int(cute::size<I>(Shape{}));
  else return 0;
}

// A stride whose first mode is the constant 1 runs along M: D is column-major, so A and B were swapped.
template <class Stride>
constexpr int runs_along_m() {
  using Inner = std::remove_pointer_t<Stride>;
  using First = std::remove_cv_t<std::remove_reference_t<decltype(cute::get<0>(Inner{}))>>;
  return cute::is_constant<1, First>::value ? 1 : 0;
}

}  // namespace tilewatch

template <typename Operator>
CUTLASS_GLOBAL
#ifdef __CUDACC__
__launch_bounds__(Operator::MaxThreadsPerBlock, Operator::MinBlocksPerMultiprocessor)
#endif
void device_kernel(CUTLASS_GRID_CONSTANT typename Operator::Params const params) {
#ifdef __CUDA_ARCH__
  if constexpr (tilewatch::IsTensorOpKernel<Operator>::value) {
    using Mainloop = typename Operator::CollectiveMainloop;
    using Epilogue = typename Operator::CollectiveEpilogue;
    using Operation = typename Epilogue::ThreadEpilogueOp;
    using Scattered = typename tilewatch::ScatterElement<Operation>::type;
    constexpr bool finalize = std::is_void_v<typename Epilogue::ElementD> && !std::is_void_v<Scattered>;
    using Output = std::conditional_t<finalize, Scattered, typename Epilogue::ElementD>;
    using Policy = typename Mainloop::DispatchPolicy;
    using Tile = typename Operator::TileShape;
    using Cluster = typename Policy::ClusterShape;
    using Tensors = typename Mainloop::TensorStorage;
    using Storage = typename Operator::SharedStorage;
    asm volatile(
        "// tilewatch a=%0 b=%1 sf=%2 output=%3 finalize=%4 swap=%5 m=%6 n=%7 k=%8 cm=%9 cn=%10 ck=%11 "
        "stages=%12 threads=%13 need=%14 smem_a=%15 smem_b=%16 smem_sfa=%17 smem_sfb=%18 mainloop=%19 "
        "epilogue=%20 pipelines=%21 scheduler=%22 tensormaps=%23 carveout=%24 "
        "arch=%25 blocks=%26 nosmem=%27"
        ::"n"(tilewatch::element_code<typename Mainloop::ElementA>()),
        "n"(tilewatch::element_code<typename Mainloop::ElementB>()),
        "n"(tilewatch::element_code<typename tilewatch::ScaleElement<Mainloop>::type>()),
        "n"(tilewatch::element_code<Output>()), "n"(int(finalize)),
        "n"(tilewatch::runs_along_m<typename Epilogue::StrideD>()),
        "n"(tilewatch::extent<0, Tile>()), "n"(tilewatch::extent<1, Tile>()),
        "n"(tilewatch::extent<2, Tile>()), "n"(tilewatch::extent<0, Cluster>()),
        "n"(tilewatch::extent<1, Cluster>()), "n"(tilewatch::extent<2, Cluster>()),
        "n"(int(Policy::Stages)), "n"(int(Operator::MaxThreadsPerBlock)),
        "n"(int(Operator::SharedStorageSize)), "n"(tilewatch::bytes_smem_A<Tensors>::value),
        "n"(tilewatch::bytes_smem_B<Tensors>::value), "n"(tilewatch::bytes_smem_SFA<Tensors>::value),
        "n"(tilewatch::bytes_smem_SFB<Tensors>::value), "n"(int(sizeof(Tensors))),
        "n"(int(sizeof(typename Epilogue::TensorStorage))),
        "n"(tilewatch::bytes_pipelines<Storage>::value),
        "n"(tilewatch::bytes_scheduler_response<Storage>::value),
        "n"(tilewatch::bytes_tensormaps<Storage>::value),
        "n"(int(sizeof(typename Epilogue::SharedStorage))),
        "n"(int(Operator::ArchTag::kMinComputeCapability)), "n"(tilewatch::BlocksPerTile<Mainloop>::value),
        "n"(tilewatch::skips_smem<typename Epilogue::DispatchPolicy>()));
  }
#endif
}

}  // namespace cutlass
