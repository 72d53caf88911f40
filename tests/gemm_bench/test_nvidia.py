from workers.bench.gemm import nvidia
from workers.bench.gemm.nvidia import Reading
from workers.bench.operators.stack import cpu_libraries


def test_reasons_are_named_and_idle_is_none():
    assert nvidia.reasons(0x1) == ()
    assert nvidia.reasons(0x4 | 0x20) == ("sw_power_cap", "sw_thermal_slowdown")


def test_readings_of_a_window():
    found = nvidia.summarise(
        [
            Reading(1980, 400.0, 50, ()),
            Reading(1500, 698.04, 52, ("sw_power_cap",)),
            Reading(None, None, None, ("hw_slowdown",)),
            Reading(1800, 690.0, 51, ("sw_power_cap",)),
        ]
    )
    assert found is not None
    assert (found.sm_clock_mhz_min, found.sm_clock_mhz_median, found.sm_clock_mhz_max) == (1500, 1800, 1980)
    assert (found.power_w, found.temperature_c) == (690.0, 51)
    assert found.throttle_reasons == ("sw_power_cap", "hw_slowdown")
    assert nvidia.summarise([]) is None


def test_a_machine_without_a_driver_has_no_readings_and_no_failure():
    source = nvidia.open_source("GPU-00000000-0000-0000-0000-000000000000")
    source.poll()
    assert (source.take(), source.sharers(), source.settings()) == ([], None, nvidia.Settings())


def test_library_versions_from_torchs_own_words():
    text = (
        "  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64\n"
        "  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd)\n"
        "  - OpenMP 201511 (a.k.a. OpenMP 4.5)\n"
        "  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release"
    )
    assert cpu_libraries(text) == {"mkl": "2024.2", "onednn": "3.12.0", "openmp": "4.5", "blas": "mkl"}
    assert cpu_libraries("") == {}
