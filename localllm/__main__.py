"""`python -m localllm` is `localllm`."""

from localllm.cli import main

if __name__ == "__main__":
    main()
