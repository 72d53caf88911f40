// Stands in for CuTe where only the list of tactics and its switch are compiled: both name tiles as
// cute::Int, and FlashInfer's table of tile shapes as cute::Shape; nothing is computed with either.
#pragma once

namespace cute {
template <int V>
struct Int {
  static constexpr int value = V;
};
template <class...>
struct Shape {};
using _1 = Int<1>;
using _2 = Int<2>;
using _4 = Int<4>;
using _8 = Int<8>;
using _16 = Int<16>;
using _32 = Int<32>;
using _64 = Int<64>;
using _96 = Int<96>;
using _128 = Int<128>;
using _160 = Int<160>;
using _192 = Int<192>;
using _224 = Int<224>;
using _256 = Int<256>;
using _384 = Int<384>;
using _512 = Int<512>;
using _768 = Int<768>;
}  // namespace cute
