#pragma once
#define CUTLASS_GLOBAL __global__ static
#define CUTLASS_GRID_CONSTANT __grid_constant__

namespace cutlass {
template <typename Operator>
CUTLASS_GLOBAL void device_kernel(CUTLASS_GRID_CONSTANT typename Operator::Params const params) {
  Operator op;
  op(params);
}
}  // namespace cutlass
