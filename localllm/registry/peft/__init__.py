"""LoRA adapters as Hugging Face's `peft` saves them, made into GGUF files for the base model that is on this machine.

Nothing here runs code of a folder, and no PyTorch is needed. Begin with `converting`. What a finished adapter must look
like is in `gguf.adapters`.
"""
