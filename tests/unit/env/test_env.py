import stat
from pathlib import Path

import pytest

from portal.env import EnvError, database_settings, load


def test_defaults_lie_in_the_data_folder(tmp_path: Path) -> None:
    env = load({"BERTH_DATA_DIR": str(tmp_path / "d")})
    assert (env.http_host, env.http_port, env.database_url, env.redis_url) == ("127.0.0.1", 8000, "", "")
    assert env.public_url == "http://127.0.0.1:8000"
    assert not (tmp_path / "d").exists()
