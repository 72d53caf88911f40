// Included before an unmodified launcher: where that asks CUTLASS for its automatic stage count, it gets
// TILEWATCH_STAGES instead.
//
// The builders are read first, so that the real StageCountAutoCarveout is theirs still; only names that come
// later mean ours.
#pragma once

#include <cutlass/gemm/collective/collective_builder.hpp>

namespace cutlass::gemm::collective {
template <int>
using TilewatchStages = StageCount<TILEWATCH_STAGES>;
}  // namespace cutlass::gemm::collective

#define StageCountAutoCarveout TilewatchStages
