"""GPU time of one call, by CUPTI, CUDA graph or CUDA events. Imported in measuring children only."""
