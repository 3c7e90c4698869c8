"""The options and settings that people ask for, as they are in `localllm/cli/options.py` and `localllm/config.py`."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

OPTIONS: tuple[Intent, ...] = (
    Intent(
        "gpu_layers",
        """how do I use [my|the|a] [GPU|graphics card]? / how do I [run|put|load] a model on [the|my] [GPU|graphics
        card]? / how do I [turn on|switch on|enable|turn off|disable] the GPU? / what is --gpu-layers? / what does
        --gpu-layers do? / --gpu-layers / what are GPU layers? / GPU layers? / how do I [set|change] the GPU layers? /
        how many layers [are|go|can I put|should I put] on the GPU? / how do I choose how many layers are on the GPU? /
        which option is for the GPU? / which option [uses|turns on|puts layers on] the GPU? / put layers on the GPU /
        use the GPU / use my graphics card / run on the GPU / how do I make it use [my|the] [GPU|graphics card]? / how
        do I offload layers? / what is offloading? / offload to GPU / how do I put [all|more|20|some] layers on the GPU?
        / all layers on the GPU / can I put [all|the whole model|some layers] on the GPU? / how do I run only on the
        CPU? / how much of the model is on the GPU? / I have a GPU. How do I use it? / what is the option for GPU
        layers? / I wonder how to use my [video card|GPU]. / I have a big GPU. How do I use all of it? / I bought a
        [GPU|graphics card], how do I put it to work? / my GPU memory is full. / the GPU is [full|out of memory]. /
        fewer layers on the GPU / I want [more|fewer|no] layers on the GPU. / move the model to the GPU / move layers to
        the [GPU|graphics card] / send the model to the video card / offload [everything|all layers|half the model] /
        half on the GPU, half on the CPU / how do I split a model between CPU and GPU? / turn on [CUDA|GPU acceleration]
        / GPU acceleration? / how do I activate the GPU? / do not use the GPU / switch off the GPU / say how I use the
        GPU. / explain --gpu-layers. / explain offloading. / can you tell me how to use a video card? / do you know how
        I get layers onto the GPU? / VRAM? / how do I use less VRAM? / n_gpu_layers""",
        """which option puts the whole model on my graphics card? / can I choose how many layers run on the GPU? / I
        want to run a model on my GPU. / please explain GPU layers.""",
        ("The option --gpu-layers says how many layers run on the GPU: auto, all or a number. The default is auto.",),
        mentions("--gpu-layers"),
    ),
    Intent(
        "temperature",
        """what is temperature? / what is the temperature [option|]? / what does temperature [do|mean]? / what does
        --temperature do? / what is --temperature? / --temperature / how do I [set|change|lower|raise] the temperature
        [of the model|of the answers|]? / can I change the temperature [of the model|option|]? / explain temperature. /
        model temperature? / temperature option? / temperature setting? / which temperature should I use? / what is a
        good temperature [for a model|]? / how do I make answers [more|less] [random|creative|wild]? / how do I make you
        more [creative|exact|random]? / how do I get the same answer every time? / why is [the|your] answer different
        each time? / why do you answer differently each time? / always the same answer / can answers be less random? /
        what does temperature 0 mean? / what is temperature 0? / how do I get [more|less] random answers? / which option
        makes answers less random? / sampling? / what is sampling? / which sampling options are there? / I wonder what
        temperature is. / I need [exact|creative|stable|repeatable] answers. / I want the same [answer|result] every
        time. / make the answers [wilder|bolder|more surprising]. / your answers are too [random|wild|boring]. / your
        answer changes every time. / each time you say something else. / how do I make the model
        [wilder|calmer|bolder|more careful]? / be more creative. / make it deterministic / deterministic answers? / is
        there randomness? / randomness? / how random are [you|your answers]? / creativity? / set the temperature to 0 /
        temperature [0|0.7|1|0.2] / turn the temperature [up|down] / lower temperature / say what temperature does. / do
        you know what temperature does? / can you tell me how to get repeatable answers? / does the same question give
        the same answer? / what does a [high|low] temperature do? / reproducible answers?""",
        """can you explain the temperature option? / which option makes the answers more creative? / what is the meaning
        of temperature? / I want less random answers.""",
        ("The option --temperature says how random the answers are. With 0 it is always the likeliest token.",),
        mentions("--temperature", "random"),
    ),
    Intent(
        "settings",
        """where are [the|my] settings? / where [do|can] I [find|change|put|write] [the|my] settings? / how do I change
        [the settings|a setting|settings]? / settings? / settings file? / where is the [settings file|config
        file|config|configuration]? / config? / config file? / config.toml? / what is config.toml? / where is
        config.toml? / is there a [config|settings|configuration] file? / how do I [configure|set up] {it}? / can I
        configure {it}? / how do I save my [options|settings]? / how do I keep [an option|my options|a setting] for
        ever? / which environment variables are there? / environment variables? / can I use environment variables? /
        what does LOCALLLM_ mean? / do I have to type the options every time? / how do I set a default? / how do I
        change the defaults? / where do settings live? / how can I make an option permanent? / where does {it} keep its
        settings? / configuration? / can I change settings? / I wonder where my settings are kept. / I need to change a
        setting. / I want to [keep|store|save] my options. / I want other defaults. / I want this option every time. / I
        always type the same options. / remember my options. / store my settings / my settings are [lost|gone|ignored].
        / my setting has no effect. / preferences? / where are my preferences? / how do I customize {it}? / can {it} be
        customized? / how do I adjust {it}? / configure localllm / open the settings / which config file does {it} read?
        / what can I write in config.toml? / env vars? / explain the settings. / explain config.toml. / say where the
        settings are. / can you tell me where options are stored? / do you know where the config lives? / which setting
        wins? / what wins, the file or the command line?""",
        """in which file are the settings? / how can I change the configuration of {it}? / can I save options in a file?
        / is it possible to configure {it} with environment variables?""",
        ("Settings stand in config.toml, in LOCALLLM_ environment variables, or on the command line, which wins.",),
        mentions("config.toml", "environment variables"),
    ),
    Intent(
        "api_keys",
        """how do I [set|use|add|make|get] [an API key|API keys|a key]? / do I need an API key? / is an API key
        [needed|required]? / API key? / API keys? / what is the API key? / which API key do I [use|need]? / how do I
        protect the server? / how do I [secure|lock] the server? / can I [set|use] [a password|a key|an API key|keys]? /
        does the server have [a password|keys|API keys]? / is there a password? / password? / where do I put [the|my]
        [API key|key|keys|API keys]? / what is LOCALLLM_API_KEYS? / LOCALLLM_API_KEYS / what does --api-key-file do? /
        --api-key-file / can anyone use [my|the] server? / can others use my server? / who can use my server? / how do I
        open the server to [others|the network|my network]? / can I use the server from another [computer|machine]? / is
        the server [open|safe|protected]? / does the server need a key? / how do I keep others out? / I want an API key.
        / how do I use the server in my network? / how does the server know who I am? / I wonder if I need a key. / I
        need a password for the server. / I want to [lock|secure] the server. / nobody else should use my server. /
        strangers must not use my server. / guard the server / lock the server / add a password / add a key / my app
        asks for an API key. / what do I enter as the key? / my key is [wrong|refused|not accepted]. / the server says
        unauthorized. / error 401? / access denied / who has access to the server? / authentication? / is there
        authentication? / bearer token? / explain the API keys. / say how I set a key. / can you tell me how to secure
        the API? / do you know whether the server has a password? / is the server public? / can the whole internet reach
        my server? / my phone can not reach the server. / server security?""",
        """where can I set a key for the server? / is it possible to protect my server with a password? / must I have an
        API key? / how can another computer use my server?""",
        (
            "Without an API key the server is open to your own machine only. "
            "LOCALLLM_API_KEYS or --api-key-file set keys.",
        ),
        mentions("LOCALLLM_API_KEYS"),
    ),
    Intent(
        "speed",
        """how fast [are you|is it|is {it}|is my model|is this model|is the model]? / how do I see [the speed|how fast
        it is|how fast you are|timings|the timings]? / how can I [see|measure|check] the speed? / speed? / timings? /
        tokens per second? / how many tokens per second [is it|do I get|do you write|]? / what is my speed? / what is
        the speed? / show me the speed. / what does --verbose do? / --verbose / what is --verbose? / how do I see the
        log? / where is the log? / where are the logs? / how do I see [the log of llama.cpp|logs|more output|what
        happens]? / how long did [it|that|the answer|your answer] take? / how long does an answer take? / which option
        shows [the speed|timings|the log]? / how do I measure [the speed|tokens per second]? / is it fast? / are you
        fast? / can I see how fast it is? / how quick are you? / I want to see the speed. / benchmark? / I wonder how
        fast you are. / I want to know [my speed|how quick it is]. / I need [numbers|statistics] about the speed. / I
        want to measure the speed. / I want to see the log. / I need [the log|more output]. / print the
        [speed|timings|log] / show the log / tok/s? / performance? / how is the performance? / statistics? / how many
        words do you write in a second? / how many seconds does an answer take? / how do I time an answer? / how long
        does one token take? / say how fast you are. / tell me your speed. / explain --verbose. / can you tell me how
        quick the model is? / do you know your speed? / verbose mode? / is there a log [file|]? / logging? / can I see
        what llama.cpp prints? / how do I run a benchmark? / speed test?""",
        """which option shows how fast the model is? / is there a way to see tokens per second? / can you show me
        timings? / what is the speed of this model?""",
        ("Add --verbose to see the tokens per second after every answer.",),
        mentions("--verbose", "tokens per second"),
    ),
    Intent(
        "system_prompt",
        """how do I [set|give|use|write|change] [a|the] system [prompt|message]? / system prompt? / system message? /
        what is a system [prompt|message]? / what is --system? / what does --system do? / --system / can I [set|give
        you|give|use|change] a system [prompt|message]? / where do I [put|write] [the|a] system [prompt|message]? / how
        do I tell [you|a model|the model] how to [behave|answer|speak]? / how do I [tell|make] [the|a] model who it is?
        / how do I give [you|the model|a model] a role? / can I give you a role? / how do I make [you|the model] speak
        like [a pirate|a king|a child]? / how do I give [you|a model|the model] instructions? / instructions for the
        model? / do you have a system [prompt|message]? / what is your system [prompt|message]? / which option sets the
        system [prompt|message]? / explain the system [prompt|message]. / how do I change how you [speak|answer|behave]?
        / does {it} support system [prompts|messages]? / how do I set your role? / set system prompt / I want to set a
        system [prompt|message]. / I wonder what a system prompt does. / I need a system prompt. / I want to change your
        [personality|character|style|tone]. / can I change your [personality|character|style|tone]? / how do I give you
        a [personality|character]? / personality? / persona? / how do I set a persona? / can the model play a role? /
        role play? / how do I give [you|a model] rules? / can I give you rules [to follow|]? / where do I write my
        instructions? / how do I make a model always [answer politely|answer in rhymes|say yes]? / make the model polite
        / how do I make you [polite|funny|formal]? / what were you told at the start? / which instructions did you get?
        / what [is /system for|does /system do]? / explain --system. / say what a system message does. / do you know
        what a system message is? / can you tell me how system messages work? / add a system message / I want a model
        that speaks like a [pirate|king|teacher].""",
        """is there an option for the system message? / how can I tell the model how to behave? / please explain what a
        system prompt is. / can I give a role to a model?""",
        ("Give it with the option --system, or type /system TEXT in the chat. It tells a model how to behave.",),
        mentions("--system", "/system"),
    ),
    Intent(
        "max_tokens",
        """how do I [limit|set|shorten|change] the [length|size] of [an answer|answers|the answer|your answers]? / how
        do I get [short|shorter|longer] answers? / how do I make [answers|your answers|an answer]
        [short|shorter|longer]? / what is --max-tokens? / what does --max-tokens do? / --max-tokens / max tokens? /
        max_tokens? / how long can an answer be? / can I limit [an answer|the answer|answers|your answers]? / limit the
        answer / length of an answer? / which option [limits|shortens] [an answer|answers|the answer]? / how do I set
        the [maximum|largest number] of tokens? / maximum tokens? / how do I stop after [10|50|100] tokens? / how many
        tokens [can|may] an answer have? / your answers are too [long|short]. / why are your answers so [short|long]? /
        answer length? / is there a limit for answers? / what is the longest answer? / can answers be [shorter|longer]?
        / I want [short|shorter|longer] answers. / I wonder how long answers can get. / I need [brief|short|long]
        answers. / I want an answer of at most [20|50|100] tokens. / no more than [20|50|100] tokens / keep your answers
        [short|brief]. / your answers are [endless|too wordy|too brief]. / you [say|write] too little. / your answer was
        cut off. / the answer ends in the middle [of a sentence|]. / why is the text cut [off|]? / answers get cut off /
        the answer stops too early. / cap the answer / token limit? / set a token limit / how many words can an answer
        have? / restrict the length of answers / can I restrict how much you write? / how do I allow longer answers? /
        allow more tokens / explain --max-tokens. / say how I limit answers. / can you tell me how to get brief answers?
        / do you know how I limit the output? / output length?""",
        """which option makes an answer shorter? / is it possible to set a limit for the length? / can I have shorter
        answers from you? / how do I set the maximum length of an answer?""",
        ("The option --max-tokens stops an answer after that many tokens.",),
        mentions("--max-tokens"),
    ),
    Intent(
        "threads",
        """how many [threads|cores|CPU cores] [does it use|do you use|does {it} use|are used|should I use]? / how do I
        [set|change|limit] the [number of threads|threads|number of cores|cores]? / what is --threads? / what does
        --threads do? / --threads / threads? / CPU threads? / cores? / number of threads? / can I
        [set|change|choose|limit] the [threads|number of threads|number of cores]? / which option sets the
        [threads|number of threads|number of cores]? / does it use all [cores|my cores|threads|CPU cores]? / how do I
        use [all|more|fewer|less] [cores|threads|CPU cores]? / use fewer threads / use more threads / use all cores / it
        uses too [much CPU|many cores|many threads]. / my CPU is too [busy|hot]. / how do I use less CPU? / how many
        threads are best? / is it multithreaded? / can it use [more than one core|several cores|all my cores]? / explain
        threads. / what are threads? / I wonder how many cores are busy. / I need more threads. / I need my CPU for
        other [things|work|programs]. / I want to use [two|four|eight|all] cores. / use [2|4|8] threads / use only [one
        core|two cores|4 cores] / run on [one core|4 cores|8 threads] / give it [more|fewer] [threads|cores] / leave
        some cores free. / my fan is loud. / my laptop gets [hot|warm|loud]. / my processor is [busy|hot|at 100
        percent]. / it eats my [CPU|processor]. / it takes all of my [CPU|cores|processor]. / CPU [usage|load]? / reduce
        the CPU load / how do I lower the CPU usage? / why is my CPU so busy? / multithreading? / do all my cores work?
        / only one core works. / thread count? / default number of threads? / explain --threads. / can you tell me how
        many cores work? / do you know how many threads it takes?""",
        """can I choose how many cores it uses? / is there an option for the number of CPU cores? / how many threads
        should I set? / I want it to use less CPU.""",
        ("The option --threads sets how many CPU threads compute. The default is one for each core.",),
        mentions("--threads"),
    ),
)
