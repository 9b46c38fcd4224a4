"""Runs a program with the first call of the driver failing, then with the second, and so on.

    failing_calls.py PROGRAM DRIVER

Every run must end by itself with the right values or with a sentence, whichever call failed.
"""

import os
import subprocess
import sys

QUIET_RUNS = 12  # ends behind the last call of the program


def main() -> int:
    program, driver = sys.argv[1:]
    failures, sentences, good = [], 0, 0
    for call in range(1, 1000):
        result = subprocess.run(
            [program],
            env={
                **os.environ,
                "KILN_CUDA_DRIVER": driver,
                "KILN_EMULATOR_DEVICES": "2",
                "KILN_EMULATOR_FAIL": f"{call}:999",
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        good = good + 1 if result.returncode == 0 else 0
        if good >= QUIET_RUNS and call > 100:
            break
        lines = [line for line in result.stderr.splitlines() if not line.startswith("kiln emulator:")]
        if result.returncode == 3 and lines and len(lines[0].split()) >= 4:
            sentences += 1
        elif result.returncode != 0:
            failures.append(f"call {call}: status {result.returncode}: {result.stderr.strip()}")
    print(f"{call} runs, {sentences} sentences")
    print("\n".join(failures))
    return 1 if failures or sentences < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
