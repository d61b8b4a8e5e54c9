"""What NVIDIA's tools say, in every state of disrepair: a value, or unknown with a reason."""

import pytest

from workers.nodeops.gpu.metrics import read_counters, read_exposition
from workers.nodeops.gpu.readings import Reading, number, pci_address, word
from workers.nodeops.gpu.smi import MigSlice, mig_memory_mib, read_csv, read_list, table_faults
from workers.nodeops.gpu.smi_xml import read_xml
from workers.nodeops.gpu.topology import read_topology

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <driver_version>550.54.15</driver_version><cuda_version>12.4</cuda_version><attached_gpus>{attached}</attached_gpus>
 {gpus}
</nvidia_smi_log>
"""
GPU = """<gpu id="00000000:4B:00.0"><product_name>NVIDIA GH200 480GB</product_name>
 <uuid>GPU-11111111-2222-3333-4444-555555555555</uuid><minor_number>2</minor_number>{more}</gpu>"""


def xml(more: str = "", attached: int = 1) -> str:
    return XML.format(attached=attached, gpus=GPU.format(more=more))


@pytest.mark.parametrize(
    "words",
    ["[N/A]", "N/A", "[Insufficient Permissions]", "[Unknown Error]", "ERR!", "[Not Supported]", "", "[GPU is lost]"],
)  # fmt: skip
def test_pyg_10475_i3pystatus_850_prmon_318_gputil_55_unknown_is_never_zero(words: str) -> None:
    for reading in (number("utilisation_percent", words), word(words)):
        assert reading.value is None
        assert reading.why


@pytest.mark.parametrize(
    ("field", "words", "value"),
    [
        ("fan_percent", "38 %", 38), ("memory_used_mib", "575 MiB", 575), ("power_watts", "26.78 W", 26.78),
        ("utilisation_percent", "0 %", 0), ("temperature_celsius", "33 C", 33),
    ],
)  # fmt: skip
def test_units_are_stripped(field: str, words: str, value: float) -> None:
    assert number(field, words) == Reading(value)


@pytest.mark.parametrize("words", ["-1 %", "101 %", "4294967295 %", "nan", "1e400", "٣"])
def test_absurd_numbers_are_not_believed(words: str) -> None:
    assert number("utilisation_percent", words).value is None


def test_openpbs_1167_fizgig_105_one_device_under_all_its_addresses() -> None:
    spelled = ("0000:9b:00", "PCI:0000:9b:00", "00000000:9B:00.0", "0000:9b:00.0")
    assert {pci_address(one) for one in spelled} == {"00000000:9B:00.0"}
    assert pci_address("9b:00.0") is None


def test_k8s_device_plugin_2038_a_lost_gpu_leaves_the_seven() -> None:
    rows = [f"{i}, 00000000:0{i + 1}:00.0, NVIDIA A40" for i in range(8) if i != 3]
    lost = "Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error"
    report = read_csv("\n".join([lost, *rows]), columns=("index", "pci.bus_id", "name"))
    sick = [gpu for gpu in report.gpus if gpu.fault]
    assert [(g.index, g.pci, g.fault) for g in sick] == [(3, "00000000:04:00.0", "Unknown Error")]
    assert sorted(g.index or 0 for g in report.gpus if not g.fault) == [0, 1, 2, 4, 5, 6, 7]


def test_csv_is_read_by_name_whatever_the_order() -> None:
    report = read_csv(
        "name, future.field, uuid, memory.total [MiB], ecc.mode.current, index, gpu_recovery_action\n"
        "NVIDIA L4, x, GPU-0a, 23034 MiB, [N/A], 1, None\n"
        "NVIDIA H100 PCIe, x, GPU-0b, 81559 MiB, Enabled, 0, Reset\n"
    )
    first, second = report.gpus
    assert (first.model, first.get("memory_total_mib").value, first.fault) == ("NVIDIA L4", 23034, "")
    assert first.get("ecc_mode") == Reading(None, "N/A")
    assert "Reset" in second.fault


def test_driver_and_library_that_differ_are_a_problem_and_no_gpu() -> None:
    words = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54"
    for report in (read_csv(words, columns=("uuid",)), read_list(words), read_xml(words)):
        assert report.gpus == ()
        assert "mismatch" in report.problems[0]


def test_the_list_has_gpus_and_not_their_mig_devices() -> None:
    report = read_list(
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5b)\n  MIG 1g.10gb     Device  0: (UUID: MIG-c7f1)\n"
        "Unable to determine the device handle for gpu 0000:05:00.0: GPU is lost.  Reboot the system\n"
    )
    assert [g.uuid for g in report.gpus] == ["GPU-5d5b", ""]
    assert report.gpus[1].fault.startswith("GPU is lost")
    assert report.problems == ()


def test_err_in_the_table_names_its_gpu_alone() -> None:
    table = (
        "|  0  NVIDIA L4      On  |   00000000:C9:00.0 Off |  Off |\n"
        "| 30%   33C    P8    4W /  72W | 1MiB / 2MiB | 0% Default |\n"
        "|  1  NVIDIA L4      On  |   00000000:CC:00.0 Off |  Off |\n"
        "|ERR!   68C    P2   99W /  72W | 1MiB / 2MiB | 93% Default |\n"
    )
    assert list(table_faults(table)) == ["00000000:CC:00.0"]


def test_an_old_card_with_almost_nothing_is_present_and_unknown() -> None:
    (gpu,) = read_xml(xml("<utilization><gpu_util>N/A</gpu_util></utilization>")).gpus
    assert (gpu.model, gpu.index, gpu.pci, gpu.fault) == ("NVIDIA GH200 480GB", 2, "00000000:4B:00.0", "")
    assert gpu.get("utilisation_percent") == Reading(None, "N/A")
    assert gpu.get("power_watts") == Reading(None, "not reported")


@pytest.mark.parametrize(
    "more",
    [
        "<power_readings><power_draw>27.23 W</power_draw></power_readings>",
        "<gpu_power_readings><instant_power_draw>27.23 W</instant_power_draw></gpu_power_readings>",
    ],
)
def test_power_is_found_where_each_version_keeps_it(more: str) -> None:
    assert read_xml(xml(more)).gpus[0].get("power_watts").value == 27.23


def test_fewer_gpus_than_attached_is_said() -> None:
    assert "counts 6 GPUs and describes 1" in read_xml(xml(attached=6)).problems[0]


def test_clocks_and_why_they_are_held() -> None:
    more = (
        "<clocks_throttle_reasons><clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>"
        "<clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle></clocks_throttle_reasons>"
    )
    assert read_xml(xml(more)).gpus[0].clocks_held == ("sw_power_cap",)


@pytest.mark.parametrize(
    ("more", "word_of_fault"),
    [
        ("<fan_speed>ERR!</fan_speed>", "ERR!"), ("<fan_speed>N/A</fan_speed>", ""),
        ("<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>", "remap"),
        ("<remapped_rows><remapped_row_pending>No</remapped_row_pending></remapped_rows>", ""),
        ("<fabric><state>In Progress</state></fabric>", "802"), ("<fabric><state>Completed</state></fabric>", ""),
        ("<ecc_mode><current_ecc>N/A</current_ecc></ecc_mode>", ""),
    ],
)  # fmt: skip
def test_faults_and_what_only_looks_like_one(more: str, word_of_fault: str) -> None:
    fault = read_xml(xml(more)).gpus[0].fault
    assert (word_of_fault in fault) if word_of_fault else fault == ""


def test_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa">]><nvidia_smi_log><gpu>&a;</gpu></nvidia_smi_log>'
    assert read_xml(bomb).gpus == ()
    assert read_xml(bomb).problems


def test_mig_memory_is_counted_once_per_gpu_instance() -> None:
    one = (
        "<mig_device><gpu_instance_id>{gi}</gpu_instance_id><compute_instance_id>{ci}</compute_instance_id>"
        "<fb_memory_usage><total>{mib} MiB</total></fb_memory_usage></mig_device>"
    )
    slices = [one.format(gi=1, ci=0, mib=20096), one.format(gi=1, ci=1, mib=20096), one.format(gi=5, ci=0, mib=9856)]
    (gpu,) = read_xml(xml(f"<mig_devices>{''.join(slices)}</mig_devices>")).gpus
    assert len(gpu.mig) == 3
    assert mig_memory_mib(gpu.mig) == 20096 + 9856
    assert mig_memory_mib([MigSlice(1, 0, None)]) == 0


TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\tPXB\t0-63,128-191\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\tNODE\t0-63,128-191\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tSYS\t64-127\t1\t\tN/A\nNIC0\tPXB\tNODE\tSYS\t X \t\t\t\t\n\nLegend:\n  X    = Self\n"
)


def test_topology_with_underlined_header() -> None:
    read = read_topology(TOPOLOGY)
    assert read.islands() == (("GPU0", "GPU1"), ("GPU2",))
    assert read.numa_groups() == {0: ("GPU0", "GPU1"), 1: ("GPU2",)}
    assert (read.near_nics("GPU0"), read.near_nics("GPU1")) == (("NIC0",), ())


def test_exposition_leaves_out_what_is_no_number() -> None:
    series = read_exposition('# HELP a b\na{u="x",v="y\\"z"} 1.5e3\nb{u="x"} NaN\nc{torn\nDCGM{err="45"}\n')
    assert [(s.name, s.value, s.labels["u"]) for s in series] == [("a", 1500.0, "x")]


def test_counter_lists() -> None:
    assert read_counters(
        "# Format\nDCGM_FI_DEV_GPU_UTIL, gauge, GPU utilisation (in %).\n\n#DCGM_FI_X, gauge, no\n"
    ) == {"DCGM_FI_DEV_GPU_UTIL": "gauge"}
