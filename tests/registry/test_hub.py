"""Plans for Hugging Face repositories, over real HTTP from a fake server: what is downloaded, what errors say."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localllm.errors import AccessDenied, InvalidParameter, LocalLLMError, ModelNotFound, PullFailed
from localllm.registry.fetch.net import Net, SmallResponse
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.names.model_names import HubFile, HubRepo, UrlName, parse
from localllm.registry.remote import Credential, PullPlan
from localllm.registry.sources import hugging_face, web
from tests.registry.hub_server import COMMIT, TOKEN, HubServer, Repo
from tests.registry.loopback import Answer, no_pause
from tests.registry.mutations import mutated

GB = 10**9
SMALL = b"GGUF small model"

REPOS = {
    "someone/m-GGUF": Repo(
        {
            "README.md": 100,
            "m-Q4_K_M.gguf": 5 * GB,
            "m-Q8_0.gguf": 9 * GB,
            "m-Q2_K.gguf": 3 * GB,
            "Q6_K/m-Q6_K-00001-of-00002.gguf": 4 * GB,
            "Q6_K/m-Q6_K-00002-of-00002.gguf": 3 * GB,
            "mmproj-F32.gguf": 2 * GB,
            "mmproj-F16.gguf": GB,
            "imatrix.gguf": 10**6,
        },
        card={"license": "apache-2.0"},
    ),
    "someone/tiny-GGUF": Repo(
        {
            "tiny model-Q4_K_M.gguf": SMALL,
            "Q6_K/é-Q6_K-00001-of-00002.gguf": b"first",
            "Q6_K/é-Q6_K-00002-of-00002.gguf": b"second",
            "mmproj-F16.gguf": b"pictures",
        }
    ),
    "someone/plain": Repo({"model.safetensors": 2 * GB, "config.json": 700}),
    "someone/gated-GGUF": Repo({"g-Q4_K_M.gguf": GB}, gated="manual"),
    "someone/open-gate-GGUF": Repo({"g-Q4_K_M.gguf": GB}, gated="auto", card={"license": "other"}),
    "someone/private-GGUF": Repo({"p-Q4_K_M.gguf": GB}, private=True),
    "someone/many-GGUF": Repo({f"m-Q{bits}_K.gguf": bits * GB for bits in range(2, 7)}, without_lfs=True),
    "someone/git-GGUF": Repo({"s-Q4_K_M.gguf": SMALL}, in_git=True, downloads=99),
    "someone/gemma-GGUF": Repo(
        {"g-Q4_K_M.gguf": GB},
        card={"license": "other", "license_name": "gemma", "license_link": "https://ai.google.dev/gemma/terms"},
    ),
}


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Net(pause=no_pause) as net:
        yield net


@pytest.fixture
def server() -> Iterator[HubServer]:
    with HubServer(REPOS) as server:
        yield server


def planned(name: str, server: HubServer, net: Net, **options: Any) -> PullPlan:
    parsed = parse(name)
    assert isinstance(parsed, HubRepo | HubFile)
    return hugging_face.plan(parsed, net, endpoint=server.url, **options)


def names(plan: PullPlan) -> list[tuple[str, str]]:
    return [(file.role, file.file_name) for file in plan.files]


def test_a_repository_is_planned_with_sizes_digests_licence_and_its_commit(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/m-GGUF:Q4_K_M", server, net)
    assert plan.name == "hf.co/someone/m-GGUF:Q4_K_M"
    assert plan.source == f"hf.co/someone/m-GGUF@{COMMIT}"
    assert names(plan) == [("model", "m-Q4_K_M.gguf"), ("projector", "mmproj-F16.gguf")]
    assert plan.files[0].size_bytes == 5 * GB
    assert plan.files[0].digest is not None
    assert plan.files[0].digest.hex == REPOS["someone/m-GGUF"].sha256("m-Q4_K_M.gguf")
    assert (plan.quant, plan.why, plan.license) == ("Q4_K_M", None, "apache-2.0")
    assert plan.notices == (
        "with its projector for pictures and sound (mmproj-F16.gguf, 1 GB); --no-projector leaves it out",
    )
    assert all(f"/resolve/{COMMIT}/" in file.url for file in plan.files)


def test_the_urls_of_a_plan_serve_what_the_digests_promise(server: HubServer, net: Net) -> None:
    for name in ("hf.co/someone/tiny-GGUF:Q6_K", "hf.co/someone/tiny-GGUF:Q4_K_M"):
        plan = planned(name, server, net)
        assert plan.files[-1].role == "projector"
        for file in plan.files:
            body = net.get_small(file.url, named_by_user=file.named_by_user, credential=file.credential).body
            assert (len(body), hashlib.sha256(body).hexdigest()) == (file.size_bytes, file.digest and file.digest.hex)


def test_the_quantization_follows_from_the_memory_of_this_machine(server: HubServer, net: Net) -> None:
    assert planned("hf.co/someone/m-GGUF", server, net, budget_bytes=16 * GB).quant == "Q4_K_M"
    small = planned("hf.co/someone/m-GGUF", server, net, budget_bytes=5 * GB)
    assert small.quant == "Q2_K"
    assert "Q4_K_M (5 GB) is too large" in (small.why or "")


def test_the_shards_of_a_model_are_its_files_in_order(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/m-GGUF:q6_k", server, net, with_projector=False)
    assert names(plan) == [("model", "m-Q6_K-00001-of-00002.gguf"), ("model", "m-Q6_K-00002-of-00002.gguf")]
    assert plan.size_bytes == 7 * GB


@pytest.mark.parametrize("name", ["hf:someone/m-GGUF/m-Q8_0.gguf", "hf.co/someone/m-GGUF:Q8_0"])
def test_a_projector_is_left_out_if_asked_and_that_is_said(name: str, server: HubServer, net: Net) -> None:
    plan = planned(name, server, net, with_projector=False)
    assert names(plan) == [("model", "m-Q8_0.gguf")]
    (notice,) = plan.notices
    assert "mmproj-F16.gguf, 1 GB" in notice
    assert "is left out, as requested" in notice
    assert names(planned(name, server, net)) == [("model", "m-Q8_0.gguf"), ("projector", "mmproj-F16.gguf")]


def test_a_file_that_was_named_is_planned_with_its_shards(server: HubServer, net: Net) -> None:
    shard = planned("hf:someone/m-GGUF/Q6_K/m-Q6_K-00002-of-00002.gguf", server, net, with_projector=False)
    assert len(shard.files) == 2


def test_a_revision_is_asked_for_and_pinned(server: HubServer, net: Net) -> None:
    plan = planned(f"hf.co/someone/m-GGUF:Q4_K_M@{COMMIT}", server, net)
    assert plan.name.endswith(f"@{COMMIT}")
    with pytest.raises(ModelNotFound, match="no revision refs/pr/7"):
        planned("hf.co/someone/m-GGUF@refs/pr/7", server, net)
    assert server.asked[-1].raw_path.startswith("/api/models/someone/m-GGUF/revision/refs%2Fpr%2F7?")


def test_sizes_and_digests_that_a_mirror_leaves_out_are_taken_from_the_tree(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/many-GGUF:Q6_K", server, net)
    assert (plan.files[0].size_bytes, plan.notices) == (6 * GB, ())
    assert plan.files[0].digest is not None
    assert len([asked for asked in server.asked if "/tree/" in asked.path]) == 2  # pages of three files


def test_a_file_without_a_digest_is_planned_with_a_notice(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/git-GGUF", server, net)
    assert plan.files[0].digest is None
    assert "cannot be verified" in plan.notices[0]


def test_the_token_goes_to_the_endpoint_and_belongs_to_no_other_origin(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/private-GGUF", server, net, token=f" {TOKEN}\n")
    assert server.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"
    credential = plan.files[0].credential
    assert credential is not None
    assert credential.origin == server.url
    with HubServer(REPOS) as other:
        other.scripted["/api/models/someone/m-GGUF/revision/main"] = Answer(
            302, b"", (("Location", f"{server.url}/api/models/someone/m-GGUF/revision/main?blobs=true"),)
        )
        server.asked.clear()
        with pytest.raises(PullFailed):  # a redirect to loopback; where it may be followed, it goes without the token
            planned("hf.co/someone/m-GGUF", other, net, token=TOKEN)
        assert all("authorization" not in asked.headers for asked in server.asked)


def test_without_a_token_nothing_is_sent(server: HubServer, net: Net) -> None:
    plan = planned("hf.co/someone/m-GGUF", server, net, token="")
    assert plan.files[0].credential is None
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_a_gated_repository_says_where_to_accept_its_terms(server: HubServer, net: Net) -> None:
    with pytest.raises(AccessDenied, match=r"terms on https://huggingface.co/someone/gated-GGUF and set HF_TOKEN"):
        planned("hf.co/someone/gated-GGUF", server, net)
    with pytest.raises(AccessDenied, match="with the account that HF_TOKEN belongs to"):
        planned("hf.co/someone/gated-GGUF", server, net, token=TOKEN)
    assert planned("hf.co/someone/open-gate-GGUF", server, net, token=TOKEN).quant == "Q4_K_M"


def test_a_wrong_token_is_told_from_a_missing_repository(server: HubServer, net: Net) -> None:
    with pytest.raises(AccessDenied, match="does not accept the token in HF_TOKEN"):
        planned("hf.co/someone/m-GGUF", server, net, token="hf_wrong")
    with pytest.raises(ModelNotFound, match="no repository someone/private-GGUF, or it is private") as caught:
        planned("hf.co/someone/private-GGUF", server, net)
    assert "did you mean hf.co/someone/private-GGUF" not in caught.value.message
    with pytest.raises(ModelNotFound) as caught:
        planned("hf.co/somebody/m-GGUF", server, net, token=TOKEN)
    assert "did you mean hf.co/someone/git-GGUF or hf.co/someone/m-GGUF" in caught.value.message
    assert "private" not in caught.value.message


def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(server: HubServer, net: Net) -> None:
    with pytest.raises(InvalidParameter) as caught:
        planned("hf.co/someone/m-GGUF", server, net, token="hf_a\r\nX-Evil: 1")
    assert "Evil" not in caught.value.message
    assert server.asked == []


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://x", "https://", "https://user:word@host"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str, net: Net) -> None:
    with pytest.raises(InvalidParameter, match="HF_ENDPOINT"):
        hugging_face.plan(HubRepo("a/b"), net, endpoint=endpoint)


def test_a_repository_without_gguf_files_says_how_to_find_one(server: HubServer, net: Net) -> None:
    with pytest.raises(ModelNotFound, match=r"has 2 files, but no GGUF file.*localllm search plain"):
        planned("hf.co/someone/plain", server, net)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(429, b"", (("RateLimit", '"api";r=0;t=42'),)), PullFailed, "in 42 s; set HF_TOKEN"),
        (Answer(429, b"", (("Retry-After", "7"),)), PullFailed, "in 7 s"),
        (Answer(503), PullFailed, "503"),
        (Answer(403, b"", (("X-Error-Message", "Access\x1b[2Jdenied"),)), AccessDenied, r"\(Access \[2Jdenied\)"),
        (Answer(200, b"<html>"), PullFailed, "unusable response"),
        (Answer(200, b""), PullFailed, "unusable response"),
        (Answer(200, b"[" * 100_000), PullFailed, "unusable response"),
        (Answer(200, b" " * (5 * 1024 * 1024)), PullFailed, "more than"),
    ],
)
def test_what_a_server_answers_instead_is_told(
    answer: Answer, error: type[LocalLLMError], says: str, server: HubServer, net: Net
) -> None:
    server.scripted["/api/models/someone/m-GGUF/revision/main"] = answer
    with pytest.raises(error, match=says):
        planned("hf.co/someone/m-GGUF", server, net)


GOOD = {"rfilename": "m-Q4_K_M.gguf", "size": 10, "lfs": {"sha256": "a" * 64, "size": 10}}


@pytest.mark.parametrize(
    ("sibling", "says"),
    [
        ({"rfilename": "../../m-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": "/etc/m-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": "a//m-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": "a\\..\\m-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": "m\x1b[31m-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": "m\0-Q4_K_M.gguf"}, "not a valid path in"),
        ({"rfilename": f"{'m' * 2000}-Q4_K_M.gguf"}, "2,012 characters"),
        ({"rfilename": f"{'m' * 250}-Q4_K_M.gguf"}, "which not every file system"),
        ({"rfilename": "C:m-Q4_K_M.gguf"}, "which not every file system"),
        ({"size": -1}, r"Expected `int` >= 0.*siblings\[0\]\.size"),
        ({"size": 10**30}, "unusable response"),
        ({"size": 1e300}, "unusable response"),
        ({"size": None, "lfs": None}, "does not give the size"),
        ({"lfs": {"sha256": "a" * 63, "size": 10}}, "invalid digest"),
        ({"lfs": {"sha256": "A" * 64, "size": 10}}, "invalid digest"),
        ({"lfs": {"sha256": "../" + "a" * 61, "size": 10}}, "invalid digest"),
        ({"lfs": {"sha256": 7, "size": 10}}, "unusable response"),
    ],
)
def test_a_rogue_answer_is_refused_with_the_field(
    sibling: dict[str, Any], says: str, server: HubServer, net: Net
) -> None:
    body = json.dumps({"sha": COMMIT, "siblings": [{**GOOD, **sibling}]}).encode()
    server.scripted["/api/models/someone/rogue-GGUF/revision/main"] = Answer(200, body)
    with pytest.raises(PullFailed, match=says):
        planned("hf.co/someone/rogue-GGUF", server, net)


@pytest.mark.parametrize("sha", ["main", "../../../etc", "a" * 41, "", "A" * 40])
def test_what_is_no_commit_does_not_get_into_a_url(sha: str, server: HubServer, net: Net) -> None:
    body = json.dumps({"sha": sha, "siblings": [GOOD]}).encode()
    server.scripted["/api/models/someone/m-GGUF/revision/main"] = Answer(200, body)
    with pytest.raises(PullFailed, match="not a valid commit"):
        planned("hf.co/someone/m-GGUF", server, net)


def test_thousands_of_files_or_pages_are_refused(server: HubServer, net: Net) -> None:
    path = "/api/models/someone/m-GGUF/revision/main"
    many = [{**GOOD, "rfilename": f"m{number}.gguf"} for number in range(5000)]
    server.scripted[path] = Answer(200, json.dumps({"sha": COMMIT, "siblings": many}).encode())
    with pytest.raises(PullFailed, match="5,000 GGUF files"):
        planned("hf.co/someone/m-GGUF", server, net)
    server.scripted[path] = Answer(200, json.dumps({"sha": COMMIT, "siblings": [GOOD, GOOD]}).encode())
    with pytest.raises(PullFailed, match="twice"):
        planned("hf.co/someone/m-GGUF", server, net)
    tree = f"/api/models/someone/many-GGUF/tree/{COMMIT}"
    server.scripted[tree] = Answer(200, b"[]", (("Link", f'<{server.url}{tree}?again=1>; rel="next"'),))
    with pytest.raises(PullFailed, match="more than 50 pages"):
        planned("hf.co/someone/many-GGUF", server, net)
    server.scripted[tree] = Answer(200, b"[]", (("Link", '<http://169.254.169.254/latest>; rel="next"'),))
    with pytest.raises(PullFailed, match=r"continues its list of files on '169\.254\.169\.254'"):
        planned("hf.co/someone/many-GGUF", server, net)


class Scripted:
    """Answers every request with the same body, without sockets, which keeps hypothesis fast."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> SmallResponse:
        assert len(self.body) <= max_bytes
        assert (named_by_user, headers) == (False, None)
        assert credential == Credential("https://huggingface.co", "Bearer hf_x")
        return SmallResponse(200, {}, self.body, url)


GOOD_INFO = {
    "sha": COMMIT,
    "gated": False,
    "tags": ["license:mit"],
    "cardData": {"license": ["mit"], "license_name": "x", "license_link": "https://x"},
    "siblings": [GOOD, {**GOOD, "rfilename": "m-Q8_0.gguf"}, {**GOOD, "rfilename": "mmproj-F16.gguf"}],
}


@example({**GOOD_INFO, "sha": "a" * 64}, HubRepo("a/b"))
@given(mutated(GOOD_INFO), st.sampled_from([HubRepo("a/b"), HubRepo("a/b", "Q4_K_M"), HubFile("a/b", "m-Q4_K_M.gguf")]))
def test_whatever_an_endpoint_answers_is_a_plan_or_an_error_of_ours(info: Any, name: HubRepo | HubFile) -> None:
    try:
        plan = hugging_face.plan(name, Scripted(json.dumps(info).encode()), token="hf_x")
    except LocalLLMError as error:
        message = error.message
    else:
        message = f"{plan.license} {plan.quant} {plan.notices}"
        for file in plan.files:
            assert re.match(r"https://huggingface\.co/a/b/resolve/([0-9a-f]{40}|[0-9a-f]{64})/", file.url)
            assert "/" not in file.file_name
            assert file.size_bytes is not None
            assert file.size_bytes >= 0
    assert message.isprintable()


@pytest.mark.parametrize(
    ("repo", "expected"),
    [
        ("someone/gemma-GGUF", "gemma (https://ai.google.dev/gemma/terms)"),
        ("someone/m-GGUF", "apache-2.0"),
        ("someone/git-GGUF", None),
    ],
)
def test_the_licence_is_that_of_the_model_card(repo: str, expected: str | None, server: HubServer, net: Net) -> None:
    assert planned(f"hf.co/{repo}:Q4_K_M", server, net).license == expected


def test_a_search_finds_repositories_with_gguf_files_the_most_downloaded_first(server: HubServer, net: Net) -> None:
    hits = hugging_face.search("someone", net, endpoint=server.url, limit=2)
    assert [hit.id for hit in hits] == ["someone/git-GGUF", "someone/m-GGUF"]
    assert hits[0].downloads == 99
    assert (hits[1].license, hits[1].likes, hits[1].updated) == ("apache-2.0", 5, "2025-05-01T00:00:00.000Z")
    assert [hit.id for hit in hugging_face.search("gated", net, endpoint=server.url) if hit.gated] == [
        "someone/gated-GGUF"
    ]
    assert hugging_face.search("nothing like it", net, endpoint=server.url) == []
    assert all(isinstance(parse(f"hf.co/{hit.id}"), HubRepo) for hit in hits)


def test_a_search_that_is_refused_says_why(server: HubServer, net: Net) -> None:
    server.scripted["/api/models"] = Answer(429)
    with pytest.raises(PullFailed, match="too many requests; try again in a few minutes"):
        hugging_face.search("x", net, endpoint=server.url)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://huggingface.co/a/b/resolve/main/m.gguf", "hf:a/b/m.gguf"),
        ("https://huggingface.co/a/b/blob/main/Q4/m.gguf?download=true", "hf:a/b/Q4/m.gguf"),
        (f"https://hf.co/a/b/resolve/{COMMIT}/m.gguf", f"hf:a/b/m.gguf@{COMMIT}"),
        ("https://huggingface.co/a/b/tree/main/m.gguf", None),
        ("https://huggingface.co/a/b/resolve/main/%2e%2e/m.gguf", None),
        ("https://example.org/a/b/resolve/main/m.gguf", None),
    ],
)
def test_a_files_address_on_hugging_face_is_known_as_one(url: str, name: str | None) -> None:
    found = web.hub_file(UrlName(url))
    assert (found and str(found)) == name
