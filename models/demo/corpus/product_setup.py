"""What one needs before a model runs: the machine, a model, the installation, and how one finds what is wrong."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

SETUP: tuple[Intent, ...] = (
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
        systems? / is it for [Windows|Linux|Mac] only? / I use [Windows|Linux|a Mac]. / does it need Linux? / I wonder
        if it works on [Windows|Linux|macOS]. / I need {it} on [Windows|macOS|Linux]. / my computer runs
        [Windows|Linux|macOS]. / my laptop is a MacBook. / I own a [MacBook|Chromebook]. / I am on
        [Windows|Linux|macOS|Ubuntu|Debian]. / Windows user here. / Mac or Windows? / Windows or Linux? / what about
        [Windows|macOS|Linux|Android]? / Android? / iPhone? / is there an app for my phone? / can my phone run {it}? /
        does it run on [Android|an iPhone|a tablet|a Raspberry Pi]? / which OS? / what OS do I need? / name the
        [systems|platforms] that work. / list the operating systems. / say on which systems it runs. / do you know
        whether {it} works on [Windows|macOS|Linux]? / can you tell me if [Windows|macOS] is fine? / is it Linux only? /
        is {it} cross platform? / compatible with [Windows|macOS|Linux]?""",
        """can people with Windows use {it}? / for which operating systems is {it}? / is my Mac supported? / I have
        Linux. Will it run?""",
        ("localllm runs on Linux, macOS and Windows.",),
        mentions("Linux", "macOS", "Windows"),
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
        my [graphics card|GPU]? / I wonder on what it can compute. / list the hardware that works. / name the
        [GPUs|cards] that work. / explain which hardware works. / is [AMD|Intel|NVIDIA|Apple silicon|Metal|Vulkan]
        [ok|fine|good enough]? / will an [AMD|Intel|NVIDIA] card do? / what about [AMD|Intel|Apple chips|Metal|Vulkan]?
        / can it run on [Metal|Vulkan|an AMD card]? / ROCm? / is there [Metal|Vulkan|AMD] support? / say which chips are
        supported. / do you know whether my [AMD|Intel|NVIDIA] card works? / can you tell me which [cards|chips] are
        good? / does a [Radeon|GeForce|MacBook] chip help? / GPU backends? / which GPU backends are built in? / my card
        is from [AMD|NVIDIA|Intel]. / supported hardware? / supported GPUs? / does it make use of an M2 chip? / on which
        processor do models run? / what does the computing, the CPU or the GPU?""",
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
        does a CPU do? / GPU needed? / GPU required? / is only a CPU fine? / I wonder if I need a GPU. / my old
        [laptop|computer|PC] has no [video card|graphics card|NVIDIA card]. / a computer without a GPU, is that a
        problem? / does it require [NVIDIA|CUDA|a video card]? / do I need [NVIDIA|CUDA|an NVIDIA card|a video card]? /
        CUDA needed? / is [NVIDIA|CUDA] required? / works on CPU? / just a CPU? / can the CPU do it alone? / does the
        processor suffice? / is an ordinary processor enough? / what if there is no graphics card? / do models need a
        GPU? / I can not afford a [GPU|graphics card]. / I don't own a [GPU|graphics card]. / do you know whether a GPU
        is needed? / can you tell me if I need a video card? / is it a must to have a GPU? / say if it needs a GPU. /
        all I have is a CPU. / there is no GPU in my PC. / is it fine to have no GPU at all?""",
        """is it necessary to have a graphics card? / my computer has only a CPU. Is that enough? / will {it} run
        without any GPU? / must I buy a graphics card?""",
        ("A GPU is not needed. A CPU is enough, and a GPU only makes large models faster.",),
        mentions("not needed", "CPU is enough"),
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
        run a [big|large] model? / do I have enough memory? / I wonder if [Llama|Mistral|a 7B model] works. / I have
        [8|16|32|64] GB of [RAM|memory]. / I only have [4|8|16] GB. / is [8|16|32] GB enough? / how many gigabytes do I
        need? / what fits in [8|16|32] GB? / what size can I run? / is my computer strong enough for a [7B|13B|big]
        model? / my memory is small. Which model works? / not enough memory / out of memory? / the model does not fit. /
        the model is too [big|large]. / can {it} handle [70B|large models]? / which families of models work? /
        [Qwen|Gemma|Phi|DeepSeek|Mistral] support? / is [DeepSeek|Qwen|Llama|Gemma] [ok|supported|possible]? / can you
        recommend a model? / which model is [best|good] for me? / name some models that work. / list the supported
        models. / explain which models work. / do you know whether [Llama|Qwen] runs here? / compatible models? / does
        every GGUF [file|model] work? / memory requirements?""",
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
        [Llama|Qwen|Mistral|Gemma]? / I am looking for a [good|better|bigger] model. / I have no GGUF file yet. / I do
        not have a model yet. / my models folder is empty. / give me a link to a model. / send me a model. / model
        download? / which website should I visit for models? / which page offers models? / where are models shared? /
        who [offers|publishes] models? / is there a [shop|store|hub] for models? / model hub? / can {it} download
        models? / does {it} fetch models for me? / can you fetch me a model? / is there a pull command? / point me to [a
        good model|some models]. / say where I find a model. / explain how people obtain models. / how do I obtain [a
        model|Llama|Mistral|weights]? / where are the weights of [Llama|Mistral|Qwen]? / Hugging Face? / on which page
        is [Llama|Qwen]? / can you tell me where people upload their models?""",
        """from where do I download a model? / do you know where I can find GGUF models? / how can I get another model?
        / is there a site where I can find models?""",
        ("Many GGUF models are free to download on the site Hugging Face.",),
        mentions("Hugging Face"),
    ),
    Intent(
        "install",
        """how do I install {it}? / how can I [install|get|set up] {it}? / install / installation? / install localllm /
        how does one install {it}? / how do I install it [on my machine|on another machine|with pip|on Linux|]? / how do
        I get localllm? / where do I [get|download] localllm? / how do I download localllm? / can I install {it} with
        pip? / pip install? / pip? / what is the install command? / which command installs {it}? / how do I set it up? /
        how is {it} installed? / what do I need to install {it}? / what is needed to install {it}? / do I need a
        compiler? / why does it compile? / how long does the installation take? / I want to install {it}. / tell me how
        to install {it}. / explain the installation. / is {it} hard to install? / can I install {it} [here|on a server]?
        / what are the steps to install {it}? / installation steps / I wonder how one installs {it}. / I need {it} on
        [another|my other|a new] computer. / I want {it} on my [laptop|server]. / the installation [fails|takes so
        long]. / setup? / set up localllm / setup steps / how do I build {it} from source? / how do I compile {it}? /
        compile localllm / do I need [cmake|a C++ compiler|gcc]? / which compiler do I need? / is there an installer? /
        is there a [package|wheel]? / [brew|apt] install? / can I use [conda|brew|apt|docker]? / is it on PyPI? / git
        clone? / what do I clone? / my friend wants to install {it}. / show me how to install it. / can you tell me how
        the setup works? / do you know how to install localllm? / how do I reinstall {it}? / explain the setup. / I do
        not have localllm on this computer yet.""",
        """what do I type to install this tool? / is there a command to install {it}? / please explain how to get {it}
        on my machine. / can it be installed with pip?""",
        ("Clone the repository and type pip install . there. It needs Python and a C++ compiler, and takes minutes.",),
        mentions("pip install"),
    ),
    Intent(
        "python_version",
        """which [Python|Python version|version of Python] [do I need|does it need|is needed|does {it} need|is
        required]? / what [Python|Python version|version of Python] [do I need|does it need|is needed|does {it} need|is
        required]? / Python version? / does it [work|run] with Python [3.9|3.10|3.11|3.12|3.13|2|3]? / is Python
        [3.9|3.10|3.11|3.12|3.13] [enough|ok|supported|fine|too old|new enough]? / can I use Python
        [3.9|3.10|3.12|3.13]? / I have Python [3.8|3.9|3.10|3.12|3.13]. / my Python is [old|too old|3.9|3.10|3.12]. / do
        I need Python [3.11|3.12|]? / minimum Python version? / oldest Python version? / what is the oldest Python? /
        does it need a new Python? / do I need a new Python? / how new must my Python be? / is my Python [too old|new
        enough]? / supported Python versions? / which Pythons are supported? / version of Python? / what Python do you
        run on? / Python 3.11? / does {it} support Python [3.10|3.11|3.12|3.13]? / is Python needed? / I wonder if my
        Python is good enough. / I still use Python [3.8|3.9|3.10|2]. / I only have Python [3.8|3.9|3.10]. / there is
        Python [3.9|3.10|3.13] on my machine. / must I update Python? / should I upgrade my Python? / do I have to
        [update|upgrade] Python? / does an old Python work? / will an old Python do? / old Python? / Python 2? / Python
        3? / Python [3.8|3.9|3.12|3.13]? / the lowest Python version? / Python requirement? / required Python? / needs
        which Python? / say which Python you need. / explain which Python works. / do you know whether Python
        [3.9|3.10|3.13] works? / can you tell me which Python is required? / is my Python recent enough? / which release
        of Python? / does it have to be a recent Python? / my Python comes from [2020|2021|last year].""",
        """how old may my Python be? / is Python 3.12 all right for {it}? / tell me the Python version that I need. /
        with which versions of Python does it work?""",
        ("localllm needs Python 3.11 or newer.",),
        mentions("Python 3.11 or newer"),
    ),
    Intent(
        "version",
        """which version [is this|of localllm is this|do I have|are you|is it]? / what version [is this|of localllm is
        this|do I have|are you|is it|of localllm do I have]? / version? / localllm version? / what is [the|your|my]
        version? / how do I [see|find|check|get|print] the version [of localllm|]? / version number? / what is the
        version number? / what does --version do? / --version / localllm --version / which command [shows|prints] the
        version? / where do I see the version? / is my version [new|old|too old]? / do I have the [newest|latest]
        version? / is this the [newest|latest] version? / what is the newest version? / which localllm is this? / how
        old is this version? / tell me the version. / show me the version. / can I see the version? / how do I know my
        version? / how do I know which version I have? / I wonder how new my localllm is. / I need the version number. /
        somebody asks for my version. / I forgot which version I installed. / which release is this? / what release do I
        have? / release? / release number? / is this an old release? / am I up to date? / is localllm up to date? / is
        there an update? / are there updates? / is there a newer [version|release]? / which build is this? / build
        number? / say the version. / print the version. / check version / explain --version. / can you tell me what
        version is running? / do you know your version? / is this version [1|2|0.1]? / latest version? / version of this
        program / how recent is my localllm? / how do I look up the version?""",
        """please tell me which version I have. / is there a command for the version number? / how can I see which
        version this is? / what is the version of localllm?""",
        ("Type localllm --version to see the version.",),
        mentions("localllm --version"),
    ),
    Intent(
        "doctor",
        """what does localllm doctor do? / what is localllm doctor? / localllm doctor / what is the doctor [command|]? /
        doctor? / what does [the doctor|doctor] do? / how do I [check|test] [my machine|my computer|my installation|the
        installation|{it}|if it works|that it works]? / something [is wrong|does not work|is broken]. / {it} does not
        work. / it does not [work|start|run]. / how do I find [the|a] [problem|fault]? / how do I find out what is
        wrong? / what do I do when it does not work? / why does it not work? / it is broken. / how do I see which
        devices [I have|there are]? / which devices [do I have|are there|can it see]? / list my devices. / does {it} see
        my [GPU|graphics card]? / is my GPU found? / why is my GPU not [found|used]? / explain the doctor. / how can I
        test my [machine|hardware|computer]? / how do I know that it works [here|]? / why do I need a doctor? / can you
        check my machine? / is everything all right with my machine? / when do I use the doctor? / [it|{it}] is [slow|so
        slow|too slow]. / how do I make it faster? / can it be faster? / what would be faster? / why is it [so|too|]
        slow? / my chat is slow. / my model is [slow|too slow|very slow]. / the answers [are slow|come slowly|take so
        long]. / it takes [for ever|so long|ages]. / speed it up / how can I speed up my model? / make it faster / I
        need more speed. / I have a problem [with {it}|]. / there is an error. / I get an error [message|]. / nothing
        happens. / it [fails|hangs]. / {it} refuses to start. / what went wrong? / diagnose my [machine|computer|setup].
        / check my [setup|computer|hardware]. / troubleshooting? / it does not find my [GPU|graphics card]. / my
        graphics card is not [used|seen|detected]. / which hardware does {it} see? / say what the doctor does. / do you
        know why it is slow? / can you tell me what would make it faster? / I wonder why it takes so long. / health
        check? / help, I see errors. / you write so slowly. / why do the words come so slowly?""",
        """how can I check that my machine is all right? / please explain localllm doctor. / what can I do when
        something is broken? / how do I find out which devices it can see?""",
        ("localllm doctor checks your machine: what computes here, how fast, and what would be faster.",),
        mentions("localllm doctor"),
    ),
)
