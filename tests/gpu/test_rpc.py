"""Layers on another machine's devices, which here is this one: real servers over loopback.

Runs where LOCALLLM_RPC_PLUGIN_DIR names a folder with llama.cpp's RPC backend, or GGML_SOURCE the source of ggml.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.cli.commands import rpc_worker
from localllm.cli.commands.doctor import story
from localllm.errors import LoadFailed, WorkerCrashed
from localllm.registry.offers.machine import examine
from localllm.rpc import hello
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings, load
from localllm.types import CpuMoe, GpuLayers, LoadedModel, SamplingParams, upstream
from localllm.types.libraries import builds
from localllm.types.load_options import LoadOptions
from localllm.types.rpc_endpoints import Endpoint
from tests.asked import complete
from tests.models.assistant import write_assistant, write_gemma4
from tests.models.maker import write_llama
from tests.rpc_plugin import plugin_folder
from tests.waiting import line_with, lines_until

pytestmark = pytest.mark.gpu

PROTOCOL = builds.named(upstream.LLAMA_VERSION).rpc_protocol
READY = "on the other machine"


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin_folder(tmp_path_factory.mktemp("plugins"))


class Server:
    """`localllm worker` in a process of its own."""

    def __init__(self, plugins: Path, home: Path, port: int, *options: str) -> None:
        self.endpoint = Endpoint("127.0.0.1", port)
        command = [sys.executable, "-P", "-m", "localllm", "worker", "--rpc", str(self.endpoint), *options]
        self.process = subprocess.Popen(
            [*command, "--plugin-dir", str(plugins), "--home", str(home)], stderr=subprocess.PIPE, text=True
        )
        self.said = lines_until(self.process, READY)

    def says(self, words: str) -> str:
        """The next line with these words."""
        return line_with(self.process, words)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def server(plugins: Path, home: Path) -> Iterator[Server]:
    server = Server(plugins, home, free_port())
    try:
        yield server
    finally:
        server.end()


def settings_of(plugins: Path, home: Path, endpoint: Endpoint) -> Settings:
    return load({"plugin_dir": plugins, "rpc": str(endpoint)}, environ={"LOCALLLM_HOME": str(home)})


async def _answer(runtime: Runtime, model: LoadedModel, max_tokens: int = 24) -> str:
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    return "".join([delta.text async for delta in await complete(runtime, model.id, "Once upon a time", params)])


def answer(
    settings: Settings,
    model: Path | str,
    layers: GpuLayers,
    devices: tuple[str, ...] | None = None,
    draft: Path | None = None,
    max_tokens: int = 24,
    n_cpu_moe: CpuMoe = "auto",
) -> tuple[str, LoadedModel]:
    async def scenario() -> tuple[str, LoadedModel]:
        runtime, drafted = Runtime(settings), None if draft is None else str(draft)
        try:
            options = LoadOptions(gpu_layers=layers, devices=devices, slots=1, draft=drafted, n_cpu_moe=n_cpu_moe)
            loaded = await runtime.load(model, options)
            return await _answer(runtime, loaded, max_tokens), loaded
        finally:
            await runtime.aclose()

    return asyncio.run(scenario())


@pytest.mark.parametrize("which", ["tiny", "demo"])
def test_no_half_and_all_layers_on_the_other_machine_give_the_same_text(
    server: Server, plugins: Path, home: Path, tiny_model: Path, which: str
) -> None:
    path = "demo" if which == "demo" else tiny_model
    settings = settings_of(plugins, home, server.endpoint)
    on_cpu, model = answer(settings, path, 0)
    every = model.info.num_layers + 1
    assert model.layers_per_device == {"CPU": every}
    half = every // 2
    choices: list[GpuLayers] = [half, "all"]
    for layers in choices:
        text, model = answer(settings, path, layers)
        assert model.layers_per_device["RPC0"] == (every if layers == "all" else half)
        assert text == on_cpu


def test_experts_on_either_machine_or_on_both_give_the_same_text(
    server: Server, plugins: Path, home: Path, tmp_path: Path
) -> None:
    """Four layers with 64 experts each, of which a token needs eight."""
    mixture = write_llama(tmp_path / "mixture.gguf", n_layer=4, n_ff=64, n_expert=64, n_expert_used=8)
    settings = settings_of(plugins, home, server.endpoint)
    alone, _ = answer(settings, mixture, 0)
    on_cpu: list[CpuMoe] = ["auto", 2, "all"]
    for stay in on_cpu:
        text, model = answer(settings, mixture, "all", n_cpu_moe=stay)
        assert model.layers_per_device == {"RPC0": 5}
        assert model.cpu_experts == {"auto": 0, 2: 2, "all": 4}[stay]
        assert text == alone


@pytest.mark.parametrize("layers", [0, 1, 3, "all"])
def test_an_assistant_reads_keys_wherever_they_are(
    server: Server, plugins: Path, home: Path, tmp_path: Path, layers: GpuLayers
) -> None:
    """On either machine, or of one layer here and of the other there."""
    target = write_gemma4(tmp_path / "target.gguf", scale=0.01)
    draft = write_assistant(tmp_path / "assistant.gguf", is_good=True)
    settings = settings_of(plugins, home, server.endpoint)
    alone, _ = answer(settings, target, layers, max_tokens=200)
    text, model = answer(settings, target, layers, draft=draft, max_tokens=200)
    assert model.draft == "assistant"
    assert text == alone


def test_streams_beside_each_other_and_conversations_that_come_back_are_as_on_this_machine(
    server: Server, plugins: Path, home: Path, tiny_model: Path
) -> None:
    settings = settings_of(plugins, home, server.endpoint)
    prompts = [f"Once upon a time number {number} went out " * 4 for number in range(5)]
    params = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)

    async def one(runtime: Runtime, id: str, prompt: str) -> tuple[str, int]:
        text, cached = "", 0
        async for delta in await complete(runtime, id, prompt, params):
            text += delta.text
            if delta.finish is not None:
                cached = delta.finish.usage.cached_tokens
        return text, cached

    async def scenario(layers: GpuLayers) -> tuple[list[str], list[str], list[int]]:
        runtime = Runtime(settings)
        try:
            model = await runtime.load(tiny_model, LoadOptions(gpu_layers=layers, slots=2))
            first = await asyncio.gather(*(one(runtime, model.id, prompt) for prompt in prompts))
            again = [await one(runtime, model.id, prompt) for prompt in prompts]
            return [text for text, _ in first], [text for text, _ in again], [cached for _, cached in again]
        finally:
            await runtime.aclose()

    here, there = asyncio.run(scenario(0)), asyncio.run(scenario("all"))
    assert there == here
    assert all(there[2]), "each was kept when it had to leave its slot"


def test_a_model_is_split_over_two_machines_and_this_one(server: Server, plugins: Path, home: Path) -> None:
    other = Server(plugins, home, free_port())
    try:
        settings = settings_of(plugins, home, server.endpoint)
        both = load(
            {"plugin_dir": plugins, "rpc": f"{server.endpoint},{other.endpoint}"}, environ={"LOCALLLM_HOME": str(home)}
        )
        on_cpu, _ = answer(settings, "demo", 0)
        text, model = answer(both, "demo", 4)
        assert text == on_cpu
        assert set(model.layers_per_device) == {"CPU", "RPC0", "RPC1"}
    finally:
        other.end()


def test_a_server_is_chosen_by_its_address_and_an_unknown_one_refused(
    server: Server, plugins: Path, home: Path, tiny_model: Path
) -> None:
    settings = settings_of(plugins, home, server.endpoint)
    _, model = answer(settings, tiny_model, "all", (f"rpc:{server.endpoint}",))
    assert set(model.layers_per_device) == {"RPC0"}
    with pytest.raises(LoadFailed, match=r"rpc:10\.9\.8\.7"):
        answer(settings, tiny_model, "all", ("rpc:10.9.8.7:1",))


def test_doctor_shows_the_devices_and_several_clients_are_served_side_by_side(
    server: Server, plugins: Path, home: Path
) -> None:
    settings = settings_of(plugins, home, server.endpoint)

    async def scenario() -> None:
        runtime = Runtime(settings)
        try:
            one = await runtime.load("demo", LoadOptions(gpu_layers="all", slots=1))
            text = await _answer(runtime, one)
            report = await asyncio.to_thread(lambda: examine(settings, fresh=False))  # another client of that server
            assert report.works
            (device,) = [each for each in report.devices if each.backend == "RPC"]
            assert device.description == str(server.endpoint)
            assert 0 < device.free_bytes < device.total_bytes
            assert any(f"RPC0: {server.endpoint}" in line for line in story(report))
            assert await _answer(runtime, one) == text
        finally:
            await runtime.aclose()

    asyncio.run(scenario())


def test_a_server_that_dies_ends_requests_with_the_reason_and_the_model_comes_back_with_it(
    plugins: Path, home: Path, tiny_model: Path
) -> None:
    port = free_port()
    server = Server(plugins, home, port)
    settings = settings_of(plugins, home, server.endpoint)

    async def scenario() -> None:
        nonlocal server
        runtime = Runtime(settings)
        try:
            model = await runtime.load(tiny_model, LoadOptions(gpu_layers="all", slots=1))
            text = await _answer(runtime, model)
            params = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)
            answer = await complete(runtime, model.id, "Once upon a time", params)
            await anext(aiter(answer))
            server.process.kill()
            server.end()
            with pytest.raises(WorkerCrashed, match="Remote RPC server crashed"):
                [_ async for _ in answer]
            with pytest.raises(LoadFailed, match=f"rpc: {server.endpoint} cannot be reached") as caught:
                await _answer(runtime, model)
            assert caught.value.param == "rpc"
            server = Server(plugins, home, port)
            assert await _answer(runtime, model) == text
        finally:
            await runtime.aclose()

    try:
        asyncio.run(scenario())
    finally:
        server.end()


def test_a_server_that_is_not_there_or_not_one_fails_the_load_at_once(plugins: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        endpoint = Endpoint("127.0.0.1", nobody.getsockname()[1])
    with pytest.raises(LoadFailed, match="cannot be reached"):
        answer(settings_of(plugins, home, endpoint), "demo", "all")


def test_what_a_client_sends_kills_its_own_connection_and_the_server_stays(
    server: Server, plugins: Path, home: Path
) -> None:
    assert hello.ask(server.endpoint, PROTOCOL) == 1
    hostile = (
        b"\x0e" + (2**63).to_bytes(8, "little"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x0e" + (24).to_bytes(8, "little") + bytes(24) + b"\x00" + (12).to_bytes(8, "little") + bytes([9]) * 12,
        b"\x0e" + (24).to_bytes(8, "little") + bytes(24) + b"\x06" + (2**60).to_bytes(8, "little"),
        b"\x0e" + (24).to_bytes(8, "little") + bytes(24) + b"\x0a" + (64).to_bytes(8, "little") + b"\xff" * 64,
    )
    for message in hostile:
        with socket.create_connection(server.endpoint, 20) as client:
            client.sendall(message)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while client.recv(65536):
                    pass
        assert hello.ask(server.endpoint, PROTOCOL) == 1
    assert server.process.poll() is None


def test_it_warns_and_ends_cleanly_with_ctrl_c_and_leaves_no_process(server: Server) -> None:
    assert "no authentication and no encryption" in "".join(server.said)
    children = re.findall(r"\d+", Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text())
    assert server.end() == 0
    assert children
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_device_that_this_machine_lacks_is_refused(plugins: Path, home: Path) -> None:
    settings = load({"plugin_dir": plugins, "device": "nothing0"}, environ={"LOCALLLM_HOME": str(home)})
    options = rpc_worker.WorkerOptions(f"127.0.0.1:{free_port()}", None, 1, allow_public=False, cache=False)
    with pytest.raises(LoadFailed, match="nothing0"):
        rpc_worker.serve_devices(settings, options)
