"""Settings: the order of the sources, and errors that say where a bad value stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from localllm.errors import InvalidParameter
from localllm.settings import config
from localllm.settings.config import Settings


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('port = 1111\nslots = 2\nctx = 512\ndevice = "Vulkan0, CUDA1"\n')
    environ = {"LOCALLLM_HOME": str(tmp_path), "LOCALLLM_PORT": "2222", "LOCALLLM_SLOTS": "3"}
    settings = config.load({"port": 3333, "host": None}, environ=environ)
    assert (settings.port, settings.slots, settings.ctx, settings.host) == (3333, 3, 512, "127.0.0.1")
    assert settings.devices == ("Vulkan0", "CUDA1")
    assert settings.data_dir == tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", "many"), ("slots", "2.5"), ("gpu_layers", "-1"), ("gpu_layers", "some"), ("log_level", "loud")],
)
def test_a_bad_value_names_itself_and_its_source(name: str, value: str, tmp_path: Path) -> None:
    environ = {"LOCALLLM_HOME": str(tmp_path), f"LOCALLLM_{name.upper()}": value}
    with pytest.raises(InvalidParameter, match=f"LOCALLLM_{name.upper()}.*{value}") as caught:
        config.load(environ=environ)
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "choices"), [("flash_attn", "auto, on, off"), ("pooling", "none, mean, cls, last, rank")]
)
def test_a_word_that_is_none_of_a_settings_is_answered_with_those(name: str, choices: str, tmp_path: Path) -> None:
    environ = {"LOCALLLM_HOME": str(tmp_path), f"LOCALLLM_{name.upper()}": "maybe"}
    with pytest.raises(InvalidParameter, match=f"'maybe' is not a valid {name} .it is one of {choices}.$"):
        config.load(environ=environ)


def test_an_unknown_setting_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("prot = 1\n")
    with pytest.raises(InvalidParameter, match=r"'prot'.*port"):
        config.load(environ={"LOCALLLM_HOME": str(tmp_path)})


@pytest.mark.parametrize(("text", "layers"), [("auto", "auto"), ("all", "all"), ("0", 0), ("12", 12)])
def test_gpu_layers_are_a_number_or_a_word(text: str, layers: object, tmp_path: Path) -> None:
    settings = config.load(environ={"LOCALLLM_HOME": str(tmp_path), "LOCALLLM_GPU_LAYERS": text})
    assert settings.gpu_layers == layers


def test_api_keys_come_from_the_setting_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# mine\none\n\n two \n  # yours\n")
    environ = {"LOCALLLM_HOME": str(tmp_path), "LOCALLLM_API_KEYS": "zero, half"}
    keys = config.load({"api_key_file": tmp_path / "keys"}, environ=environ).keys()
    told = [(key.name, key.secret) for key in keys]
    assert told == [("key-1", "zero"), ("key-2", "half"), ("key-3", "one"), ("key-4", "two")]
    with pytest.raises(InvalidParameter, match="api_key_file"):
        config.load({"api_key_file": tmp_path / "none"}, environ=environ).keys()


@pytest.mark.parametrize(
    ("text", "name", "secret"),
    [
        ("sk-1", "key-1", "sk-1"),
        ("alice=sk-1", "alice", "sk-1"),
        ("alice = sk-1", "alice", "sk-1"),
        ("alice=c2VjcmV0cw==", "alice", "c2VjcmV0cw=="),
        ("c29tZSByYW5kb20gYnl0ZXM=", "key-1", "c29tZSByYW5kb20gYnl0ZXM="),
        ("c29tZSByYW5kb20gYnl0ZQ==", "key-1", "c29tZSByYW5kb20gYnl0ZQ=="),
        ("a/b+c=d", "key-1", "a/b+c=d"),
    ],
)
def test_an_api_key_may_have_a_name_before_it(text: str, name: str, secret: str) -> None:
    (key,) = Settings(api_keys=text).keys()
    assert (key.name, key.secret) == (name, secret)
    assert secret not in repr(key)


@pytest.mark.parametrize("text", ["sk-1,alice=", "sk-1,alice=="])
def test_a_name_whose_key_was_forgotten_is_no_key(text: str) -> None:
    with pytest.raises(InvalidParameter, match="number 2 is a name without a key"):
        Settings(api_keys=text).keys()


def test_an_api_key_may_have_properties_between_its_name_and_itself() -> None:
    text = "ann(admin)=a(b)=c,bob ( min_priority=-5 max_concurrent=4  requests_per_minute=60 ) = x, carol()=y,d(user)=z"
    ann, bob, carol, dora = Settings(api_keys=text).keys()
    assert (ann.name, ann.role, ann.secret) == ("ann", "admin", "a(b)=c")
    assert (bob.name, bob.role, bob.secret) == ("bob", "user", "x")
    assert (bob.min_priority, bob.max_concurrent, bob.requests_per_minute) == (-5, 4, 60)
    assert carol.properties() == dora.properties() == ("user", None, None, None)
    plain = Settings(api_keys="pass(word,pass(word)").keys()
    assert [key.secret for key in plain] == ["pass(word", "pass(word)"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ann(boss)=hidden", "unknown property or value"),
        ("ann(min_priority=-1001)=hidden", "min_priority=N \\(from -1000 to 1000\\)"),
        ("ann(max_concurrent=-1)=hidden", "unknown property or value"),
        ("ann(max_concurrent=many)=hidden", "unknown property or value"),
        ("ann(max_concurrent)=hidden", "unknown property or value"),
        ("ann(admin admin)=hidden", "twice"),
        ("ann(admin user)=hidden", "twice"),
        ("ann(max_concurrent=1 max_concurrent=2)=hidden", "twice"),
        ("ann(admin=hidden", "begins like a name with properties"),
        ("ann(admin)x=hidden", "begins like a name with properties"),
        ("ann(admin)=", "a name without a key"),
        ("ann=hidden, ann(admin)=other", "the keys called ann have different properties"),
        ("ann=hidden, bob=hidden", "ann and bob are the same API key"),
        ("key-2=other, hidden", "the keys called key-2 have different properties"),
    ],
)
def test_an_api_key_that_can_be_read_in_two_ways_is_refused_without_being_shown(text: str, reason: str) -> None:
    with pytest.raises(InvalidParameter, match=reason) as caught:
        Settings(api_keys=text).keys()
    assert "hidden" not in caught.value.message


def test_a_key_file_without_a_key_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# none yet\n")
    with pytest.raises(InvalidParameter, match=r"api_key_file.*contains no key"):
        Settings(api_key_file=tmp_path / "keys").keys()
    assert len(Settings(api_key_file=tmp_path / "keys", api_keys="one").keys()) == 1


def test_origins_are_written_as_browsers_write_them() -> None:
    origins = "https://Chat.Example/, http://localhost:3000, null, file://, *"
    expected = ("https://chat.example", "http://localhost:3000", "null", "file://", "*")
    assert Settings(cors_origins=origins).origins() == expected
    for wrong in ("chat.example", "https://chat.example/app", "https://a b"):
        with pytest.raises(InvalidParameter, match="cors_origins"):
            Settings(cors_origins=wrong).origins()


@pytest.mark.parametrize(("name", "value"), [("keep_alive_s", "-1"), ("max_concurrent_per_key", "-1")])
def test_limits_are_not_negative(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=name):
        config.load(environ={"LOCALLLM_HOME": str(tmp_path), f"LOCALLLM_{name.upper()}": value})


def test_limits_of_sampling_and_loading_name_the_field() -> None:
    from localllm.types import SamplingParams
    from localllm.types.load_options import LoadOptions

    for bad, field in (
        (lambda: SamplingParams(temperature=float("nan")), "temperature"),
        (lambda: SamplingParams(top_p=1.5), "top_p"),
        (lambda: SamplingParams(stop=("",)), "stop"),
        (lambda: SamplingParams(max_tokens=-2), "max_tokens"),
        (lambda: LoadOptions(slots=257), "slots"),
    ):
        with pytest.raises(InvalidParameter, match=field) as caught:
            bad()
        assert caught.value.param == field
