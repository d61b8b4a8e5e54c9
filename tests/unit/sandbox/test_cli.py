"""The sandbox's command line."""

from pathlib import Path

import pytest

from portal.sandbox import SandboxCluster, SandboxError, cli, shell


def parse(*words: str) -> dict[str, object]:
    args = vars(cli.build_parser().parse_args(["--state", "/srv/sb", *words]))
    args.pop("handler")
    return args


def test_add_has_the_defaults_of_the_interface() -> None:
    args = parse("add", "gpu-1", "gpu-2")
    assert args["node"] == ["gpu-1", "gpu-2"]
    assert (args["gpus"], args["model"], args["memory_mib"]) == (8, "NVIDIA H100 80GB HBM3", 81559)
    assert (args["cpus"], args["host_memory_mib"]) == (None, 2048)


@pytest.mark.parametrize("verb", ["power-cut", "boot", "partition", "heal", "freeze", "thaw", "slow", "unslow", "exec"])
def test_verbs_of_one_node(verb: str) -> None:
    args = parse(verb, "gpu-1")
    assert (args["verb"], args["node"], args["state"]) == (verb, "gpu-1", Path("/srv/sb"))


@pytest.mark.parametrize("words", [("overheat", "n", "3", "95"), ("drop-gpu", "n", "3"), ("restore-gpu", "n", "3")])
def test_verbs_of_one_gpu(words: tuple[str, ...]) -> None:
    assert parse(*words)["gpu"] == 3


def test_exec_keeps_the_commands_own_options() -> None:
    assert parse("exec", "gpu-1", "--", "ls", "-l", "--name", "x")["command"][-4:] == ["ls", "-l", "--name", "x"]  # type: ignore[index]


@pytest.mark.parametrize("words", [(), ("add",), ("boot",), ("overheat", "n", "x", "y"), ("ls", "extra"), ("fly", "n")])
def test_wrong_words_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(*words)
    assert stopped.value.code == 2
    assert "usage: python -m portal.sandbox" in capsys.readouterr().err


def test_help_explains_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.build_parser().parse_args(["--help"])
    text = capsys.readouterr().out
    verbs = "add rm ls power-cut boot partition heal freeze thaw slow unslow overheat drop-gpu restore-gpu exec"
    for verb in [*verbs.split(), "load-image", "destroy", "needs root"]:
        assert verb in text


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cli.main(["--state", str(tmp_path), "ls"]) == 1
    assert capsys.readouterr().err == (
        "sandbox: the sandbox needs root: it makes namespaces, links and cgroups. Everything else of Berth does not.\n"
    )


def test_missing_packages_are_named_with_the_line_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None if name in ("podman", "ip", "tc") else "/x")
    with pytest.raises(SandboxError, match=r"apt-get install -y --no-install-recommends iproute2 podman$"):
        shell.require_tools()


def test_a_folder_of_another_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "cluster.json").write_text('{"name": "ab", "subnet": "10.1.2.0/24"}')
    SandboxCluster(tmp_path, name="ab", subnet="10.1.2.0/24")
    with pytest.raises(SandboxError, match=r"holds cluster 'ab' on 10\.1\.2\.0/24"):
        SandboxCluster(tmp_path, name="cd", subnet="10.1.2.0/24")


def test_a_node_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cli.main(["--state", str(tmp_path), "boot", "gpu-9"]) == 1
    assert capsys.readouterr().err == "sandbox: there is no sandbox node 'gpu-9'; there are: none\n"
    assert cli.main(["--state", str(tmp_path), "ls"]) == 0
    assert "no nodes; add one with" in capsys.readouterr().out


def test_failures_of_tools_carry_their_last_words() -> None:
    with pytest.raises(SandboxError, match=r"failed \(3\): so sad"):
        shell.run(["sh", "-c", "echo so sad >&2; exit 3"])
    with pytest.raises(SandboxError, match="no answer within"):
        shell.run(["sleep", "60"], timeout_s=0.01)
    with pytest.raises(SandboxError, match="is not installed"):
        shell.run(["no-such-tool"])
    assert shell.run(["cat"], input_text="given") == "given"
