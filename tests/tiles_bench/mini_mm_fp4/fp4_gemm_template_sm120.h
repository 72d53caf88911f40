#ifndef MINI_FP4_GEMM_TEMPLATE_SM120_H_
#define MINI_FP4_GEMM_TEMPLATE_SM120_H_
#error "the kernels must be left out where tactics are asked for"
// genericFp4GemmKernelLauncherStreamK, StageCountAutoCarveout
#endif
