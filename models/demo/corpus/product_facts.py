"""What is true of localllm, and the few words that one has to know to use it."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

FACTS: tuple[Intent, ...] = (
    Intent(
        "what_is_localllm",
        """what is localllm? / what's localllm? / localllm? / what is [this tool|this program|this software|this
        thing|all this]? / what does {it} do? / what can {it} do? / explain localllm. / tell me about {it}. / tell me
        what localllm is. / describe {it}. / what is {it} for? / what is {it} good for? / what do people use {it} for? /
        what can I do with {it}? / what kind of [program|tool|software] is {it}? / why would I use {it}? / why should I
        use {it}? / what is the [point|purpose|use] of {it}? / can you explain what localllm is? / what does localllm
        mean? / localllm, what is that? / I do not know localllm. / I am new to localllm. / I am new here. What is this?
        / give me a summary of {it}. / in one sentence, what is localllm? / what have I installed? / what is the idea of
        {it}? / how would you describe {it}? / can you tell me what {it} does?""",
        """please tell me what this tool does. / so what is the use of this program? / could you tell me what localllm
        is for? / can you describe localllm in one sentence?""",
        (
            "localllm runs language models on your own machine. "
            "It is a chat in the terminal, a server and a Python library.",
            "It is a tool that runs language models on your own machine: "
            "as a chat in the terminal, as a server or from Python.",
        ),
        mentions("your own machine", "terminal", "server", "Python"),
    ),
    Intent(
        "gguf",
        """what is GGUF? / what is a GGUF [file|model]? / what's GGUF? / GGUF? / what does GGUF mean? / explain GGUF. /
        what are GGUF files? / tell me about GGUF. / what is in a GGUF file? / what is a .gguf file? / which [file
        format|format|files] does {it} use? / which [file format|format|kind of file] do I need? / what file format are
        the models in? / what [format|kind of file] is a model? / can you explain GGUF? / what is the GGUF format? / why
        GGUF? / GGUF format? / meaning of GGUF? / I do not know what GGUF is. / what format does a model need? / is a
        model one file? / what does a model file [contain|look like]? / in what format are models? / what is model.gguf?
        / does {it} need GGUF files? / describe the GGUF format. / what kind of files does {it} [run|read|need]?""",
        """could you tell me what GGUF means? / in which format does {it} read models? / what is the file format of a
        model? / please explain what a GGUF file is.""",
        ("GGUF is the file format of llama.cpp: one file holds the whole model.",),
        mentions("GGUF", "file format"),
    ),
    Intent(
        "quantization",
        """what is quantization? / what does quantized mean? / quantization? / what is a quantized model? / explain
        quantization. / what are quantized models? / what does quantization [do|mean]? / why are models quantized? / why
        quantize a model? / what is Q4? / what is [Q8|Q8_0|Q4_K_M|Q4_0]? / what does [Q8|Q8_0|Q4_K_M|Q4|Q4_0] mean? /
        what does the Q in Q8 mean? / tell me about quantization. / can you explain quantization? / what is 4-bit
        quantization? / what is a 4-bit model? / how does quantization work? / is quantization bad? / does quantization
        make [it|a model|models] [smaller|faster|worse]? / how are models made smaller? / how can a big model fit in
        [memory|my machine]? / which quantization should I use? / what is the point of quantization? / meaning of
        quantized? / quantized models? / why use quantized models? / what happens when a model is quantized? / are these
        models quantized?""",
        """please explain what quantized means. / what happens in quantization? / can you tell me what a quantized model
        is? / why do people use quantization?""",
        ("Quantization stores a model's numbers with fewer bits. It gets smaller and faster, but less exact.",),
        mentions("fewer bits"),
    ),
    Intent(
        "token",
        """what is a token? / what are tokens? / tokens? / token? / explain tokens. / explain [a|the word] token. / what
        does token mean? / what is a token in a language model? / how long is a token? / how big is a token? / is a
        token a word? / are tokens words? / how many words is a token? / how many [letters|characters] does a token
        have? / tell me about tokens. / can you explain tokens? / what is tokens per second? / what does tokens/s mean?
        / why tokens and not words? / what do you mean by token? / what is the meaning of token? / how does a model read
        text? / how is text split? / what is a tokenizer? / what does a tokenizer do? / how many tokens does a word
        have? / what pieces does a model write? / describe what a token is. / I do not know what a token is. / words or
        tokens?""",
        """could you explain what a token is? / is one token the same as one word? / tell me the meaning of the word
        token. / please tell me what tokens are.""",
        ("A token is a piece of text, often a word or a part of one. A model reads and writes tokens.",),
        mentions("token", "piece of text"),
    ),
    Intent(
        "context",
        """what is context? / what is the context? / what is a context [window|length|size]? / context? / context
        [window|length|size]? / what does context mean? / explain [context|the context|the context window]. / how long
        can [a|our|my] [conversation|chat|prompt|text] be? / how much text can [a model|you|it] [see|read|remember]? /
        how much can you remember? / how do I change the context [length|size|]? / how do I set the context
        [length|size|]? / how do I get a [longer|larger|bigger] context? / what is --ctx? / what does --ctx do? / --ctx
        / how many tokens can [a model|you] [see|read]? / how large is [the|your] context? / what is your context
        [window|length|size|]? / why do you forget what I said? / larger context / tell me about the context window. /
        can I make the context [larger|longer|bigger|smaller]? / which option sets the context? / what is the option for
        the context? / what is the meaning of context? / what happens when the context is full? / my text is too long. /
        my prompt is too long.""",
        """which option makes the context longer? / can you explain the context length? / is there a way to set the
        context size? / how many tokens can the context be?""",
        ("The context is all the text that a model sees at once. The option --ctx sets its length in tokens.",),
        mentions("sees at once", "--ctx"),
    ),
    Intent(
        "llama_cpp",
        """what is llama.cpp? / what's llama.cpp? / llama.cpp? / what does llama.cpp do? / explain llama.cpp. / tell me
        about llama.cpp. / do you [use|need|run on] llama.cpp? / does {it} [use|need|contain] llama.cpp? / is {it} based
        on llama.cpp? / what is {it} [built on|based on|built with]? / which [engine|library] does {it} use? / what
        engine is [inside|in|behind|under] {it}? / what does the [arithmetic|math|computing|work]? / who does the
        [arithmetic|math]? / what computes the [answers|models]? / what is [under|behind] {it}? / what is ggml? / what
        does ggml mean? / why llama.cpp? / which library runs the models? / what library is [inside|used]? / how does
        {it} run models? / how does {it} work? / how does {it} work inside? / what runs inside {it}? / is llama.cpp
        inside? / is {it} the same as llama.cpp? / is {it} just llama.cpp? / how is {it} [built|made]?""",
        """can you tell me what llama.cpp is? / which library is {it} built on? / what is the engine that computes the
        answers? / is {it} made with llama.cpp?""",
        ("llama.cpp is a fast open library that computes language models. localllm uses it for all the arithmetic.",),
        mentions("llama.cpp", "arithmetic"),
    ),
    Intent(
        "language_model",
        """what is a language model? / what are language models? / what is an LLM? / what does LLM mean? / LLM? /
        language model? / explain language models. / explain what [a language model|an LLM] is. / what is a large
        language model? / how does a language model work? / how do language models work? / how do LLMs work? / how do
        you work? / how do you write [text|answers|your answers]? / how do you make your answers? / what does a language
        model do? / tell me about language models. / what is AI? / what is a model? / what is a chat model? / what does
        model mean? / how does AI work? / what happens when you answer? / how do you know what to say? / how do you
        choose [your|the next] words? / can you explain how you work? / meaning of LLM? / in simple words, what is a
        language model?""",
        """please explain what a language model does. / can you tell me how a model works? / how do you choose what to
        say next? / what is the meaning of LLM?""",
        ("A language model is a program that has learned from text to guess the next word, again and again.",),
        mentions("guess", "next word"),
    ),
    Intent(
        "hardware",
        """what does {it} run on? / what hardware [do I need|does it need|is needed|is supported]? / hardware? / which
        hardware [works|is supported|do I need]? / which [GPUs|GPU|graphics cards] [can I use|are supported|work|does it
        support]? / does {it} support [GPUs|a GPU|CUDA|Metal|Vulkan|NVIDIA|AMD|NVIDIA cards|AMD cards]? / can {it} use
        [my GPU|a GPU|my graphics card|CUDA|Metal|Vulkan]? / do you support [CUDA|Metal|Vulkan|GPUs]? / CUDA? / Metal? /
        Vulkan? / GPU support? / does it run on [a GPU|NVIDIA|AMD|my graphics card|Apple chips|the CPU]? / does it work
        with [CUDA|Metal|Vulkan|my GPU|AMD|NVIDIA]? / can I use [my GPU|CUDA|Metal|Vulkan|a graphics card]? / on what
        does {it} run? / what can it compute on? / which backends are there? / what backends does {it} have? / CPU or
        GPU? / does it run on [CPU and GPU|CPU or GPU]? / what do you run on? / where do you run? / which
        [chips|devices] [work|are supported]? / what kind of [computer|machine|hardware] does {it} run on? / will it use
        my [graphics card|GPU]?""",
        """can models run on my graphics card? / what sort of hardware does {it} support? / is CUDA supported? / which
        GPUs does it work with?""",
        ("Models run on the CPU, and on a GPU through Metal, Vulkan or CUDA, as llama.cpp was built.",),
        mentions("CPU", "Metal", "Vulkan", "CUDA"),
    ),
    Intent(
        "need_gpu",
        """do I need a [GPU|graphics card|video card]? / is a [GPU|graphics card] needed? / is a GPU
        [required|necessary]? / do you need a [GPU|graphics card]? / does {it} need a [GPU|graphics card]? / must I have
        a [GPU|graphics card]? / can I use {it} without a [GPU|graphics card]? / does {it} work without a [GPU|graphics
        card]? / can it run without a [GPU|graphics card]? / I have no [GPU|graphics card]. / I do not have a
        [GPU|graphics card]. / no GPU? / without a GPU? / what if I have no [GPU|graphics card]? / will it work with no
        GPU? / is a CPU enough? / is my CPU enough? / can I run models [only|just] on [the|my] CPU? / CPU only? / do I
        have to buy a [GPU|graphics card]? / is it possible without a [GPU|graphics card]? / does this model need a GPU?
        / should I buy a GPU? / do I have to have a GPU? / my [laptop|computer|machine] has no [GPU|graphics card]. /
        does a CPU do? / GPU needed? / GPU required? / is only a CPU fine?""",
        """is it necessary to have a graphics card? / my computer has only a CPU. Is that enough? / will {it} run
        without any GPU? / must I buy a graphics card?""",
        ("A GPU is not needed. A CPU is enough, and a GPU only makes large models faster.",),
        mentions("not needed", "CPU is enough"),
    ),
    Intent(
        "offline",
        """do you need the [internet|web|network]? / does {it} need [the internet|internet|a connection|an internet
        connection]? / do I need [the internet|internet|a connection|to be online]? / can I use {it} [offline|without
        the internet|without internet]? / does {it} work [offline|without the internet|without a connection]? / offline?
        / are you connected to the internet? / can you [search|use|see|read] the [web|internet]? / can you look things
        up [online|on the internet]? / do you have [internet access|access to the internet]? / internet? / does {it} run
        offline? / is a connection needed? / is the internet needed? / must I be online? / can it run on a plane? / what
        if I am offline? / what if my internet is down? / can {it} work with no internet? / is {it} a cloud service? /
        does {it} use the cloud? / do you run in the cloud? / are you in the cloud? / is an internet connection
        [required|needed|necessary]? / can you browse the web? / can you google something?""",
        """will it work when I am offline? / is the network needed to run models? / can I run {it} without a connection?
        / do you have a connection to the web?""",
        ("The internet is not needed. Models run offline, on your own machine.",),
        mentions("internet", "offline"),
    ),
    Intent(
        "cost",
        """does {it} cost [anything|something|money]? / how much does {it} cost? / what does {it} cost? / is {it} free?
        / is {it} free [of charge|to use]? / do I have to pay [for it|anything|you|something|]? / must I pay? / how much
        [is it|are you|must I pay|do I pay]? / price? / cost? / what is the price? / free? / are you free? / do you cost
        [money|anything]? / can I use {it} for free? / is there a [price|fee|subscription|paid version]? / do I need [an
        account|a subscription|a credit card]? / do I pay [per token|for tokens|for answers]? / does every answer cost
        [money|something]? / is [it|this] expensive? / what do I have to pay? / how expensive is {it}? / who pays for
        this? / do tokens cost money? / is there a free version? / do I have to [buy|rent] {it}? / does it cost [me|us]
        anything to ask? / is everything free?""",
        """what will it cost me? / do you want money for this? / is there anything that I have to pay for? / can I have
        {it} for free?""",
        ("localllm is free. There is no price and no account.",),
        mentions("free", "account"),
    ),
    Intent(
        "licence",
        """what is the licence? / what's the license? / what is the license [of localllm|of it|]? / which
        [licence|license] does {it} have? / licence? / license? / under which [licence|license] is {it}? / is {it} open
        source? / are you open source? / open source? / is the [code|source code|source] [open|public|free]? / can I see
        the [code|source|source code]? / can I [read|change|copy|share] the [code|source code]? / may I
        [change|copy|sell|share] {it}? / can I use {it} [at work|in my company|in a product|commercially|for business]?
        / is commercial use allowed? / MIT licence? / is it MIT? / where is the [code|source code]? / is this free
        software? / what am I allowed to do with {it}? / am I allowed to [change|sell|share|copy] {it}? / is {it} closed
        source? / tell me the [licence|license]. / what kind of [licence|license] is it? / do you have a
        [licence|license]?""",
        """under what license can I use it? / can my company use it in a product? / is the source of {it} open? / may I
        change the source code?""",
        ("localllm is open source, under the MIT licence.",),
        mentions("open source", "MIT licence"),
    ),
    Intent(
        "privacy",
        """is {it} [private|safe|secure]? / is [this|our|my] [chat|conversation|talk] private? / privacy? / what about
        [privacy|my privacy|my data]? / where does my data go? / where do my [messages|words|questions|prompts] go? / do
        you [send|share|store|save|keep|sell] [my data|my messages|what I write]? / does {it}
        [send|share|store|sell|collect] [my data|my messages|data]? / who can [see|read] [this|my messages|what I
        write|our chat|my data]? / can anyone [read|see] [this|my messages|what I write]? / is my data
        [safe|private|secure]? / are my [messages|data|questions] [safe|private]? / do you spy on me? / are you spying
        on me? / do you [collect|gather] data? / does anything leave my [machine|computer]? / does my data leave my
        [machine|computer]? / do you learn from [me|my data|what I write]? / can I tell you a secret? / can I tell you
        [private|secret] things? / is there tracking? / do you track me? / does {it} phone home? / do you have
        telemetry? / is what I write kept secret? / will you tell [anyone|others]? / is somebody reading this?""",
        """does {it} keep my messages private? / what happens to my data? / will anyone see what I write here? / can I
        share private things with you?""",
        ("What you write is private. It stays on your machine, and nothing is sent anywhere.",),
        mentions("private", "stays on your machine"),
    ),
    Intent(
        "systems",
        """which [systems|operating systems|platforms] [does it support|are supported|does it run on|work|can I use]? /
        what [operating systems|systems|platforms] [does {it} support|are supported|does {it} run on]? / does {it}
        [run|work] on [Linux|Windows|a Mac|macOS|my Mac|Windows 11|Ubuntu]? / is there a [Windows|Mac|Linux|macOS]
        version? / can I [use|run|install] {it} on [Linux|Windows|a Mac|macOS|my Mac|Ubuntu|my phone]? / do you
        [run|work] on [Linux|Windows|a Mac|macOS]? / Windows? / Linux? / macOS? / Mac? / does {it} support
        [Linux|Windows|macOS|a Mac]? / [Linux|Windows|Mac] support? / I have [Windows|Linux|a Mac]. Does it work? / on
        which [systems|operating systems|platforms] does {it} [run|work]? / will it work on [Windows|Linux|my Mac]? / is
        [Windows|Linux|macOS] supported? / what system do I need? / which operating system do I need? / supported
        systems? / is it for [Windows|Linux|Mac] only? / I use [Windows|Linux|a Mac]. / does it need Linux?""",
        """can people with Windows use {it}? / for which operating systems is {it}? / is my Mac supported? / I have
        Linux. Will it run?""",
        ("localllm runs on Linux, macOS and Windows.",),
        mentions("Linux", "macOS", "Windows"),
    ),
    Intent(
        "crash",
        """what happens [if|when] a model [crashes|dies|fails]? / what if a model [crashes|dies]? / what happens if you
        crash? / does a crash [of a model|] [stop|kill|end|take down] the server? / can a model [crash|kill|take down]
        [the server|{it}|everything]? / does the server [crash|die|stop] [when|if] a model crashes? / does the server
        survive a crash? / a model crashed. What now? / my model crashed. / the model died. / is the server safe from
        [crashes|a crash]? / crash? / crashes? / what does a crash do? / can you crash? / do you crash? / how stable is
        {it}? / is {it} stable? / what about crashes? / can a bad model break [the server|everything|{it}]? / does one
        model run in its own process? / do models run in their own process? / why does every model have its own process?
        / why does a model run in a process of its own? / will the server go down if the model dies? / how many
        processes are there? / what happens after a crash? / can a crash break everything? / where does the
        model run?""",
        """will the server run on after a model crashes? / a model has died. Is the server down? / is {it} safe when a
        model fails? / how does {it} survive a crash?""",
        ("Every model runs in a process of its own, so a crash does not take down the server.",),
        mentions("process of its own", "crash"),
    ),
    Intent(
        "many_users",
        """can [several|many|two|more|multiple] [people|users|clients|persons|programs] use {it} at [once|the same
        time]? / can [several|many|two|multiple] [people|users|clients] use the server? / how many
        [people|users|clients] can use {it} [at once|at the same time|]? / how many [requests|answers|questions] at
        [once|the same time]? / does it [support|do|have] [batching|parallel requests|several users|many users]? /
        parallel requests? / batching? / what is batching? / what are slots? / what is a slot? / what does --slots do? /
        --slots / several users? / many users? / can the server answer [several|many|two|multiple]
        [people|requests|questions|users] at [once|the same time]? / is it [good|made] for [many|several] users? / can
        my [team|family|friends] use it [together|at the same time|]? / can we [all|both] use it at [once|the same
        time]? / how do I set the [number of slots|slots]? / how do I serve [many|several|more] [users|people|requests]?
        / can it do things in parallel? / what happens when two people ask at [once|the same time]? / how many slots are
        there? / can I send [two|many|several] requests at once?""",
        """is it possible for several people to ask at the same time? / can the server do many requests at once? / two
        users at once? / which option sets the number of answers at the same time?""",
        ("The server computes 4 answers at the same time, and the option --slots changes that. Other requests wait.",),
        mentions("--slots", "same time"),
    ),
    Intent(
        "difference",
        """how is {it} different [from others|from other tools|from other programs|from Ollama|from llama.cpp|]? / what
        makes {it} [different|special|better|good]? / why {it} and not [Ollama|another tool|another program]? / why
        should I use {it} and not [Ollama|another tool|others]? / is {it} better than [Ollama|other tools|others|LM
        Studio]? / what is special about {it}? / what is [new|different|better] in {it}? / how does {it} compare to
        [Ollama|other tools|others|LM Studio]? / {it} or Ollama? / what is the difference between localllm and
        [Ollama|other tools|LM Studio]? / Ollama? / what about Ollama? / difference to Ollama? / is {it} like [Ollama|LM
        Studio]? / what does {it} do better [than others|than Ollama|]? / what are the strong points of {it}? / is {it}
        the best? / is {it} faster than [Ollama|others|other tools]? / are there other tools like {it}? / why not
        Ollama? / compare {it} with [Ollama|other tools|others]. / what is good about {it}?""",
        """is localllm different from Ollama? / what does this tool do that others do not? / what is so special about
        this program? / what is the difference to other programs?""",
        (
            "There are other good tools. localllm is small, tests what works on your machine, and keeps every model "
            "in its own process.",
        ),
        mentions("other good tools"),
    ),
    Intent(
        "which_models",
        """which models [can I run|can I use|are supported|work|does it support|can it run]? / what models [can I
        run|can I use|are supported|work|are there]? / does {it} [run|support] [Llama|Qwen|Mistral|Gemma|Phi|all
        models|every model]? / can I [run|use] [Llama|Qwen|Mistral|Gemma|Phi]? / can {it} run
        [Llama|Qwen|Mistral|Gemma|large models|big models]? / how [big|large] can a model be? / how much memory do I
        need? / how much [RAM|memory] does {it} need? / how much [RAM|memory] does a model need? / memory? / RAM? /
        supported models? / is my [machine|computer|memory] big enough? / which size of model should I [use|choose]? /
        which model fits [my machine|in my memory|]? / does a [7B|13B|70B|big|large] model fit? / can I run a
        [7B|13B|70B] model? / can my [machine|computer|laptop] run a [big|large|bigger|larger] model? / what is the
        largest model that I can run? / is there a list of models? / how do I know if a model fits? / what do I need to
        run a [big|large] model? / do I have enough memory?""",
        """will a large model run on my laptop? / what is the largest model that I can use? / how much memory is needed
        for a model? / does it support models like Llama?""",
        ("Any GGUF model that llama.cpp knows and that fits in your memory. It needs more than its file size.",),
        mentions("fits in your memory"),
    ),
    Intent(
        "get_models",
        """where [do|can] I [get|find|download] [models|a model|other models|more models|better models|bigger models|a
        better model|a bigger model|GGUF files|GGUF models|a GGUF file]? / how [do|can] I [get|find|download] [models|a
        model|other models|more models|a better model|a bigger model|GGUF files]? / where are [the|other|more] models? /
        download a model / download models / I need a [model|better model|bigger model|GGUF file]. / I have no model. /
        I want [a|another] model. / which site has models? / where do models come from? / is there a site with models? /
        can you download a model [for me|]? / where is a good model? / where do people get their models? / where do I
        look for [models|a model]? / get models / find models / what if I have no model? / who has models? / what is
        Hugging Face? / do I have to download a model? / how do I get Llama? / where can I download
        [Llama|Qwen|Mistral|Gemma]?""",
        """from where do I download a model? / do you know where I can find GGUF models? / how can I get another model?
        / is there a site where I can find models?""",
        ("Many GGUF models are free to download on the site Hugging Face.",),
        mentions("Hugging Face"),
    ),
)
