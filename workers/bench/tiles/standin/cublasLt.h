// Stands in for the cuBLASLt header; see cublas_v2.h beside it.
#pragma once
#include <cublas_v2.h>
