#!/usr/bin/env python3
"""check_tensorboard.py - has TensorBoard's own reader list all that TensorboardWriter wrote.

Usage: check_tensorboard.py BUILD/tests/files_tensorboard_writer_test
Needs the package tensorboard from PyPI; says so and exits 0 where it is absent.
SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile


def main():
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("skipped: no tensorboard (pip install tensorboard)")
        return
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[1], "[.tensorboard]"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DTRAIN_TENSORBOARD_DIR": directory})
        reader = EventAccumulator(directory)
        reader.Reload()
        tags = reader.Tags()
        assert set(tags["scalars"]) == {"train/loss", "eval/bleu"}, tags
        assert tags["tensors"] == ["text/config"], tags
        loss = [(point.step, point.value) for point in reader.Scalars("train/loss")]
        # Steps 7 to 10 of the first session are gone: the second one resumed from step 6.
        assert loss == [(s, 100.0 + s) for s in range(1, 7)] + [(7, 207.0), (8, 208.0)], loss
        assert [point.step for point in reader.Scalars("eval/bleu")] == list(range(1, 7))
        text = reader.Tensors("text/config")[0].tensor_proto.string_val[0]
        assert text == b"steps: 10", text
        plugin = reader.SummaryMetadata("text/config").plugin_data.plugin_name
        assert plugin == "text", plugin
    print("TensorBoard reads all tags; a resumed run has one curve")


main()
