"""The agent's reading of the kernel log, from a device that gives records."""

import os
from pathlib import Path

from workers.agent.kernel import KernelLog

XID = "NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response"


def test_the_first_line_of_each_kind_is_told_and_stays_told(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    os.mkfifo(device)
    log = KernelLog(str(device))
    assert log.lines() == []
    with device.open("w") as writer:
        writer.write(f"4,1,10,-;{XID}\n4,2,11,-;{XID}\n6,3,12,-;nvidia-peermem ERROR detected invalid context\n")
        writer.write("3,4,13,-;NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.\n")
        writer.flush()
        told = log.lines()
    assert told == [f"4,1,10,-;{XID}", "3,4,13,-;NVRM: GPU 0000:04:00.0: GPU has fallen off the bus."]
    assert log.lines() == told
    log.close()


def test_a_log_that_may_not_be_read_is_empty(tmp_path: Path) -> None:
    assert KernelLog(str(tmp_path / "absent")).lines() == []
