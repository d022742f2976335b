"""The tests as another machine would run them.

    python tests/levels.py                        the levels
    python tests/levels.py sse tests/test_x.py    pytest with these arguments at the level `sse`
    python tests/levels.py all                    the whole suite at each level: half an hour

The last bits of exp, of a product of matrices and of a sum belong to the processor: NumPy, the C
library and OpenBLAS have code for each kind of processor, and can be told to use an older one's. No
test, no key and no stored text may rest on these bits."""
import os
import subprocess
import sys

# The names of NumPy 2.4 and later, and those before; a name that NumPy does not know is left alone.
AVX512 = "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL"
AVX2 = "X86_V3 AVX2 FMA3 F16C AVX"

LEVELS = {
    # a processor with AVX2, as most have
    "avx2": {"NPY_DISABLE_CPU_FEATURES": AVX512, "OPENBLAS_CORETYPE": "Haswell"},
    # without it: the C library's exp and log are others too
    "sse": {
        "NPY_DISABLE_CPU_FEATURES": f"{AVX512} {AVX2}",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    # nothing wider than a double, as on ARM
    "doubles": {"TESTS_IN_DOUBLES": "1"},
    # another place: its clock, its letters, the order of its sets
    "abroad": {
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONHASHSEED": "4051",
    },
}


def run(level, arguments):
    "The exit status of pytest at a level."
    print(f"== {level}", flush=True)
    command = sys.executable, "-W", "ignore::ImportWarning", "-m", "pytest", "-q", *arguments
    return subprocess.run(command, env=os.environ | LEVELS[level]).returncode


def main(words):
    "The command; its exit status."
    if words == ["all"]:
        whole = "-n", "auto", "--dist", "worksteal", "--ignore", "tests/browser"
        return max(run(level, whole) for level in LEVELS)
    if not words or words[0] not in LEVELS:
        print(__doc__, "\nLevels:", ", ".join(LEVELS))
        return 2
    return run(words[0], words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
