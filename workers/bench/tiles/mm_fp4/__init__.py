"""The CUTLASS backend of FlashInfer's dense mm_fp4, NVFP4 x NVFP4: its tactics and its kernels."""
