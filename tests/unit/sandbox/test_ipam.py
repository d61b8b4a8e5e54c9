"""Names and addresses of sandbox nodes."""

import pytest

from portal.sandbox import SandboxError, ipam


@pytest.mark.parametrize("name", ["sb", "a", "t1234567"])
def test_good_cluster_names(name: str) -> None:
    assert ipam.check_cluster_name(name) == name


@pytest.mark.parametrize("name", ["", "Sb", "1a", "a-b", "abcdefghi", "a b", "a\n"])
def test_bad_cluster_names_are_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="1 to 8 lower-case"):
        ipam.check_cluster_name(name)


@pytest.mark.parametrize("name", ["gpu-1", "n", "a" * 32])
def test_good_node_names(name: str) -> None:
    assert ipam.check_node_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a" * 33, "a/b", "..", "a_b", "gpu\n"])
def test_bad_node_names_are_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="node name"):
        ipam.check_node_name(name)


@pytest.mark.parametrize("text", ["10.77.0.0/24", "192.168.5.0/24"])
def test_good_subnets(text: str) -> None:
    assert str(ipam.parse_subnet(text)) == text


@pytest.mark.parametrize("text", ["10.77.0.0/16", "8.8.8.0/24", "10.77.0.1/24", "here", "fd00::/24", ""])
def test_bad_subnets_are_refused(text: str) -> None:
    with pytest.raises(SandboxError, match=r"10\.77\.0\.0/24"):
        ipam.parse_subnet(text)


def test_the_lowest_free_number_is_given() -> None:
    assert ipam.next_host([]) == 10
    assert ipam.next_host([10, 11, 13]) == 12


def test_a_full_subnet_is_said() -> None:
    with pytest.raises(SandboxError, match="241 nodes"):
        ipam.next_host(range(10, 251))


def test_addresses_and_link_names_fit() -> None:
    network = ipam.parse_subnet("10.77.3.0/24")
    assert ipam.gateway(network) == "10.77.3.1"
    assert ipam.address(network, 250) == "10.77.3.250"
    assert len(ipam.link_name("a" * 8, 250)) <= 15
    assert len(ipam.bridge_name("a" * 8)) <= 15


def test_mac_addresses_are_local_and_follow_the_address() -> None:
    first = ipam.mac_address("sb", 10)
    assert first.startswith("02:")
    assert first == ipam.mac_address("sb", 10)
    assert len({first, ipam.mac_address("sb", 11), ipam.mac_address("other", 10)}) == 3
