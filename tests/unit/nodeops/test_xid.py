"""Kernel log lines, in each of the formats that logs come in."""

import pytest

from workers.nodeops.gpu.xid import Act, act_of, read_kernel_log, reason, worst

BODY = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "line",
    [
        f"[Sun Feb 23 16:24:18 2025] {BODY}", f"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 {BODY}",
        f"4,3973,227996636,-;{BODY}", f"Jan 21 04:41:44 node7 kernel: {BODY}", BODY,
    ],
)  # fmt: skip
def test_every_log_format(line: str) -> None:
    (event,) = read_kernel_log([line])
    assert (event.pci, event.code, event.act) == ("00000000:9B:00.0", 79, Act.REBOOT)


@pytest.mark.parametrize(
    "line",
    ["NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.", "NVRM: GPU at PCI:0000:9b:00 has fallen off the bus."],
)
def test_k8s_device_plugin_2038_off_the_bus_without_a_number(line: str) -> None:
    (event,) = read_kernel_log([line])
    assert (event.pci, event.act) == ("00000000:9B:00.0", Act.REBOOT)
    assert "fallen off the bus" in reason(event)


def test_many_lines_are_one_event_with_its_gpu_and_count() -> None:
    identity = "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad"
    line = "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024, name=smi, Timeout after 6s of waiting for RPC response"
    (event,) = read_kernel_log([identity, line, "NVRM:    0   103  GSP_RM_ALLOC", line, line])
    assert (event.count, event.uuid, event.pid, event.act) == (3, "GPU-509665ad", 2024, Act.RESET)


@pytest.mark.parametrize(
    ("code", "act"),
    [
        (13, Act.TELL_OWNER), (31, Act.TELL_OWNER), (43, Act.TELL_OWNER), (45, Act.IGNORE), (94, Act.RESET_WHEN_IDLE),
        (109, Act.RESET), (119, Act.RESET), (79, Act.REBOOT), (9999, Act.TELL_OWNER),
    ],
)  # fmt: skip
def test_what_each_asks_for(code: int, act: Act) -> None:
    assert act_of(code) is act


def test_only_the_worst_isolating_event_of_a_gpu_counts() -> None:
    lines = [
        f"NVRM: Xid (PCI:0000:0{gpu}:00): {code}, x" for gpu, code in ((1, 13), (1, 45), (2, 94), (2, 79), (2, 109))
    ]
    chosen = worst(read_kernel_log(lines))
    assert {pci: event.code for pci, event in chosen.items()} == {"00000000:02:00.0": 79}


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context", "", "NVRM: Xid (PCI:zz): 79",
        "Out of memory: Killed process 7 (python)", "NVRM: Xid (PCI:0000:9b:00): 99999",
    ],
)  # fmt: skip
def test_other_lines_are_no_gpu_fault(line: str) -> None:
    assert read_kernel_log([line]) == ()
