"""What changes a loaded model while it computes: LoRA adapters, and control vectors.

Not here: what a file must look like (`gguf.adapters`), and whose turn it is (`engine.scheduling`). Begin with `lora`.
"""
