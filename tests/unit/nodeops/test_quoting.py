"""Words through a real shell, and refusals."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.nodeops import attach_command, file_path
from workers.nodeops.commands import add_key_command, agent_path
from workers.nodeops.quoting import as_root, quote

_WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=12), max_size=5
)


def through(shell: str, command: str) -> str:
    return subprocess.run([shell, "-c", command], capture_output=True, check=True, timeout=20).stdout.decode()


@settings(max_examples=40, deadline=None)
@given(_WORDS)
def test_words_arrive_as_they_are(words: list[str]) -> None:
    assert through("/bin/sh", "printf '<%s>' " + " ".join(map(quote, ["", *words]))) == "".join(
        f"<{word}>" for word in ["", *words]
    )


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "csh", "tcsh", "fish", "ksh"])
def test_hard_words_through_each_login_shell(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} on this machine")
    words = ["it's", "!!", "a!b", "\\", "\\\\'", "$HOME", "`id`", "{a,b}", "*", "~", ""]
    assert through(program, "/usr/bin/printf '<%s>' " + " ".join(map(quote, words))) == "".join(f"<{w}>" for w in words)


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "a\0b"])
def test_words_that_no_shell_carries(word: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        quote(word)


def test_plain_words_stay_readable() -> None:
    assert quote("/var/lib/berth/files") == "/var/lib/berth/files"
    assert quote("a b") == "'a b'"


def test_root_scripts_see_their_arguments() -> None:
    # Whoever runs the tests: the script must not depend on being root to be quoted well.
    command = as_root('printf "%s|" "$#" "$@"', "one two", "it's", "!").replace("sudo -n ", "")
    assert through("/bin/sh", command) == "3|one two|it's|!|"


@pytest.mark.parametrize(("version", "nonce"), [("../../x", "a" * 32), ("0123456789ab", "$(id)"), ("", "")])
def test_attach_takes_no_strange_words(version: str, nonce: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        attach_command(version, nonce)


def test_paths() -> None:
    assert file_path("a" * 64) == "/var/lib/berth/files/" + "a" * 64
    assert agent_path("0123456789ab") == "/var/lib/berth/agent/0123456789ab.pyz"
    for bad in ("x", "../" + "a" * 61):
        with pytest.raises(ValueError, match="hexadecimal"):
            file_path(bad)
        with pytest.raises(ValueError, match="hexadecimal"):
            agent_path(bad)


def test_a_key_is_added_once_to_a_file_without_a_final_newline(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").write_text("ssh-rsa OLD old")
    for _ in range(2):
        command = add_key_command("ssh-ed25519 AAAA it's me")
        subprocess.run(
            ["/bin/sh", "-c", command], env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, check=True, timeout=20
        )
    assert (home / ".ssh/authorized_keys").read_text() == "ssh-rsa OLD old\nssh-ed25519 AAAA it's me\n"
    assert (home / ".ssh/authorized_keys").stat().st_mode & 0o077 == 0o044  # as it was: 0644
