#!/usr/bin/env python3
"""check_safetensors.py - exchanges files with the reference implementation of safetensors.

Usage: check_safetensors.py BUILD/tests/files_safetensors_test
Needs the packages safetensors and numpy; says so and exits 0 where they are absent.
SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile


def main():
    try:
        import numpy as np
        from safetensors import safe_open
        from safetensors.numpy import load_file, save_file
    except ImportError:
        print("skipped: no safetensors or no numpy (pip install safetensors numpy)")
        return
    with tempfile.TemporaryDirectory() as directory:
        theirs = os.path.join(directory, "theirs.safetensors")
        ours = os.path.join(directory, "ours.safetensors")
        tensors = {
            "weight": np.arange(6, dtype=np.float32).reshape(2, 3), "half": np.ones(3, np.float16),
            "mask": np.array([True, False]), "scalar": np.array(3, np.float64),
            "ids": np.array([-7, 8]), "none": np.zeros((0, 4), np.float32), "ä\"": np.uint8([9]),
        }
        save_file(tensors, theirs, {"format": "pt", "step": "12"})
        subprocess.run([sys.argv[1], "[.exchange]"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DTRAIN_SAFETENSORS_DIR": directory})
        # The program has written what it read.
        read = load_file(ours)
        assert set(read) == set(tensors), read.keys()
        for name, expected in tensors.items():
            assert read[name].shape == expected.shape, name
            assert (read[name] == expected).all(), name
        assert safe_open(ours, "np").metadata() == {"format": "pt", "step": "12"}
    print("the reference implementation of safetensors reads ours and we read its files")


main()
