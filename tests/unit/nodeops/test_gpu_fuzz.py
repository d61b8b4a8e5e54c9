"""No text makes a reader raise, or give a negative or absurd number, or turn unknown into a value."""

from hypothesis import given
from hypothesis import strategies as st

from workers.nodeops.gpu.metrics import read_counters, read_exposition
from workers.nodeops.gpu.readings import BOUNDS, number, pci_address, word
from workers.nodeops.gpu.smi import SmiReport, mig_memory_mib, read_csv, read_list, table_faults
from workers.nodeops.gpu.smi_xml import read_xml
from workers.nodeops.gpu.topology import read_topology
from workers.nodeops.gpu.xid import read_kernel_log, worst

CELLS = st.one_of(
    st.sampled_from(
        ["[N/A]", "ERR!", "[Unknown Error]", "-5 %", "99999999999999999999 MiB", "12 %", "GPU-1", "", '"', "\0"]
    ),
    st.integers().map(str),
    st.text(max_size=12),
)
COLUMNS = ("uuid", "index", "name", "memory.total", "utilization.gpu", "power.draw", "pci.bus_id")
TAGS = (
    "utilization/gpu_util",
    "fb_memory_usage/total",
    "fan_speed",
    "minor_number",
    "uuid",
    "power_readings/power_draw",
)
PIECES = st.sampled_from(
    ["NVRM: Xid (PCI:0000:9b:00): ", "79", "-1", ", pid=", "NVRM: GPU at PCI:0000:9b:00: GPU-1", "\n", "|ERR!",
     " has fallen off the bus", "GPU0\t", "\tGPU0\tGPU1\tNUMA Affinity\n", " X \t", "NV18\t", "\x1b[4m", "1e999",
     "Unable to determine the device handle for GPU3: 0000:04:00.0: x", 'a{b="c"} ', "GPU 0: x (UUID: GPU-1)",
     "|  1  X On | 00000000:CC:00.0 Off |", "<nvidia_smi_log>", "<gpu>", "</nvidia_smi_log>", "DCGM_X, gauge, y"]
)  # fmt: skip
SOUP = st.lists(st.one_of(PIECES, CELLS), max_size=30).map("".join)


def assert_sane(report: SmiReport) -> None:
    for gpu in report.gpus:
        assert gpu.index is None or 0 <= gpu.index <= BOUNDS["index"]
        assert mig_memory_mib(gpu.mig) >= 0
        for name, reading in gpu.readings.items():
            if reading.value is None:
                assert reading.why
            elif isinstance(reading.value, float):
                assert 0 <= reading.value <= BOUNDS[name]


@given(SOUP)
def test_any_text(text: str) -> None:
    for report in (read_csv(text), read_csv(text, COLUMNS), read_list(text), read_xml(text)):
        assert_sane(report)
    topology = read_topology(text)
    assert sum(len(island) for island in topology.islands()) == len(topology.gpus)
    assert all(number >= 0 for number in topology.numa.values())
    assert all(event.count >= 1 and event.code >= 0 for event in read_kernel_log(text.splitlines()))
    assert set(worst(read_kernel_log([text]))) <= {event.pci for event in read_kernel_log([text])}
    table_faults(text)
    read_counters(text)
    assert all(abs(series.value) < float("inf") for series in read_exposition(text))


@given(st.lists(st.lists(CELLS, min_size=len(COLUMNS), max_size=len(COLUMNS)), max_size=9))
def test_any_cells(rows: list[list[str]]) -> None:
    assert_sane(read_csv("\n".join(", ".join(row) for row in rows), COLUMNS))


@given(st.lists(st.tuples(st.sampled_from(TAGS), CELLS), max_size=8))
def test_any_elements(elements: list[tuple[str, str]]) -> None:
    body = ""
    for path, value in elements:
        outer, _, inner = path.partition("/")
        inside = f"<{inner}>{value}</{inner}>" if inner else value
        body += f"<{outer}>{inside}</{outer}>"
    assert_sane(read_xml(f"<nvidia_smi_log><gpu>{body}</gpu></nvidia_smi_log>"))


@given(st.text(), st.sampled_from(sorted(BOUNDS)))
def test_any_reading(text: str, field: str) -> None:
    reading = number(field, text)
    assert (reading.value is None) == bool(reading.why)
    assert isinstance(word(text).value, str) or word(text).why
    pci_address(text)
