"""A LoRA adapter that Hugging Face's `peft` trains on the demo model, and the logits that PyTorch then computes.

pip install -e ".[train]" peft
python models/demo/foreign.py          # writes tests/registry/data/peft, in a minute on one core

`localllm lora convert` is tested with it: the shape of the folder, of the config and of the names is peft's own. The
adapter has rsLoRA, and matrices of two ranks and three strengths.
"""

from __future__ import annotations

import random
from pathlib import Path

import adapter
import numpy as np
import tokenizer as bpe
import torch
from gguf import GGUFReader, quants
from peft import LoraConfig, get_peft_model
from see import read_model
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "localllm/data/demo.gguf"
OUT = ROOT / "tests/registry/data/peft"
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
STEPS, ROWS, LENGTH = 80, 8, 96
PROMPT = [11, 300, 45, 2070, 9, 512, 88, 4000, 7, 1234, 640, 31]


def hugging_face_model() -> LlamaForCausalLM:
    """The demo with the dequantized weights of its file, in the order of rows that Hugging Face has."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=100_000.0,
            tie_word_embeddings=False,
        )
    )  # fmt: skip
    state = {}
    for tensor in GGUFReader(DEMO).tensors:
        weight = torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        parts = tensor.name.split(".")
        if parts[0] != "blk":
            name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}[parts[0]]
        else:
            name = f"model.layers.{parts[1]}.{NAMES[parts[2]]}"
            heads = {"attn_q": 4, "attn_k": 2}.get(parts[2])
            if heads is not None:  # llama.cpp has the two that RoPE rotates beside each other
                halves = weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2)
                weight = halves.reshape(weight.shape)
        state[f"{name}.weight"] = weight
    model.load_state_dict(state)
    return model.eval()


def batches(seed: int) -> list[Tensor]:
    """Rows of tokens of the corpus, answered by a pirate."""
    _, words = read_model(DEMO)
    ids, _ = bpe.encode(words, list(adapter.texts(seed, 2000)))
    rng = random.Random(seed)
    starts = [[rng.randrange(len(ids) - LENGTH) for _ in range(ROWS)] for _ in range(STEPS)]
    return [torch.from_numpy(np.stack([ids[at : at + LENGTH] for at in row]).astype(np.int64)) for row in starts]


def main() -> None:
    torch.manual_seed(50)
    torch.set_num_threads(1)
    config = LoraConfig(
        r=4, lora_alpha=6, use_rslora=True, rank_pattern={"o_proj": 2},
        alpha_pattern={r"layers\.[01]\.mlp\.down_proj": 3},
        target_modules=["q_proj", "k_proj", "o_proj", "down_proj", "lm_head"], task_type="CAUSAL_LM",
    )  # fmt: skip
    model = get_peft_model(hugging_face_model(), config)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-2)
    with torch.no_grad():
        before = model(torch.tensor([PROMPT])).logits[0, -1].numpy()
    for step, ids in enumerate(batches(50)):
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}")
    for each in model.parameters():  # the base stays as it is; the adapter is saved in F16
        each.data = each.data.half().float() if each.requires_grad else each.data
    with torch.no_grad():
        after = model(torch.tensor([PROMPT])).logits[0, -1].numpy()
    for each in model.parameters():
        each.data = each.data.half() if each.requires_grad else each.data
    model.save_pretrained(OUT, save_embedding_layers=False)
    (OUT / "README.md").unlink()
    np.savez(OUT / "logits.npz", prompt=np.array(PROMPT), before=before, after=after)
    size = (OUT / "adapter_model.safetensors").stat().st_size
    print(f"{OUT}: {size:,} bytes; logits change by up to {np.abs(after - before).max():.2f}")


if __name__ == "__main__":
    main()
