"""How localllm is used: its commands, the chat, the server and the library, as they are in `localllm/cli`."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

USAGE: tuple[Intent, ...] = (
    Intent(
        "run",
        """how do I run a [model|bigger model|larger model|real model|better model|GGUF file|GGUF model]? / how do I use
        [my own model|another model|a bigger model|a larger model|a different model|a real model|other models|a better
        model]? / how can I [run|use|start|load|try] [a model|my own model|another model|a larger model|a bigger model|a
        GGUF file]? / how do I [start|load|open|try] a [model|bigger model|larger model|GGUF file]? / can I use
        [another|a different|a bigger|a larger|my own] model? / run a model / run my own model / use a bigger model /
        bigger model? / I want [a bigger model|a larger model|to run my own model|to use another model|a real model]. /
        I have a [model|GGUF file]. What now? / what is the command to run a model? / which command runs a model? / how
        do I run model.gguf? / how do I chat with [a bigger model|my own model|another model|my model|a model]? / how do
        I start a chat? / how do I switch [models|the model|to another model]? / how do I change the model? / run a GGUF
        file / how do I start? / how do I begin? / how do I use {it}? / how do I get started? / where do I start? / how
        does one use {it}? / localllm run / what does localllm run do? / getting started / how do I replace you with a
        [bigger|better|real] model? / can you run [other|bigger|larger] models?""",
        """what do I type to run my model? / I would like to try a larger model. / what is the way to use another GGUF
        file? / how can I chat with a better model than you? / please tell me how to start a model.""",
        ("Type localllm run model.gguf, with the path of your GGUF file.",),
        mentions("localllm run model.gguf", "your GGUF file"),
    ),
    Intent(
        "one_answer",
        """how do I ask [one|a single|just one] question? / how do I get [one|a single|just one] answer? / can I ask
        [one question|a question] without [a|the] chat? / how do I ask from the command line? / how do I use {it} in a
        script? / can I use {it} in a [script|shell script]? / how do I ask a question in a script? / one answer only /
        only one answer, no chat / how do I give a prompt on the command line? / where do I put the prompt? / can I give
        the prompt on the command line? / how do I ask without a chat? / a single question / how do I run it for one
        question? / one question, one answer, how? / how do I pass a prompt? / how do I pass a question to {it}? / how
        do I write the prompt after the model? / can I use {it} without the chat? / prompt on the command line / I only
        want one answer. / I want to ask only one question. / can {it} answer just one question? / how does a script ask
        you? / I do not want a chat.""",
        """is there a way to ask only one question? / how do I put my question on the command line? / can a script get a
        single answer? / I want one answer and no chat.""",
        ('Put the question after the model: localllm run model.gguf "Why is the sky blue?"',),
        mentions("after the model", "localllm run model.gguf"),
    ),
    Intent(
        "serve",
        """how do I start [the|a] server? / how do I run [the|a] server? / how can I [start|run|launch|open] [the|a]
        server? / start the server / start server / server? / run a server / how do I serve a model? / how can I serve
        [a|my|this] model? / serve a model / which command starts the server? / what is the command for the server? / is
        there a server? / does {it} have a server? / do you have a server? / can I run {it} as a server? / can {it} be a
        server? / how do I use {it} as a server? / I want [a server|to start the server|to run a server|to serve a
        model]. / what does localllm serve do? / localllm serve / can you start [a|the] server? / how do I get an API? /
        how do I start the API? / is there an API? / does {it} have an API? / does {it} have an HTTP [API|server]? / how
        do I launch the server? / server mode? / how do I make a model available over HTTP? / what starts the server? /
        how does the server start? / please start the server. / can I serve a model to other programs?""",
        """what do I type to start the server? / please tell me how to serve my model. / which command do I need for a
        server? / I would like to run {it} as a server.""",
        ("Type localllm serve model.gguf to start the server.",),
        mentions("localllm serve model.gguf", "start the server"),
    ),
    Intent(
        "stop_server",
        """how do I [stop|end|close|quit|shut down|turn off] the server? / how can I [stop|end|close|shut down] the
        server? / stop the server / stop server / end the server / shut down the server / I want to stop the server. /
        the server does not stop. / which key stops the server? / how does the server [stop|end]? / how do I turn the
        server off? / can I stop the server? / what stops the server? / what ends the server? / kill the server / how do
        I kill the server? / is there a way to stop the server? / close the server / server off / how do I get the
        server to stop? / quit the server / how do I end localllm serve? / how do I stop localllm serve? / what do I
        press to stop the server? / what do I press to end the server?""",
        """which key ends the server? / I would like to shut the server down. / is there a key to close the server? /
        please tell me how to stop the server.""",
        ("Press Ctrl-C in the terminal where the server runs. It ends running answers first.",),
        mentions("Ctrl-C", "where the server runs"),
    ),
    Intent(
        "port",
        """which port [is it|does it use|does the server use|is used|do you use]? / what port [is it|does it use|does
        the server use|is used|is it on]? / port? / server port? / what is the [port|default port|port number]? / on
        which port does [it|the server] [listen|run|answer]? / how do I change the port? / how can I [change|set|choose]
        [the|another|a different] port? / can I [use|choose|set] [another|a different] port? / change the port / another
        port / the port is [taken|in use|used]. / my port is [taken|in use]. / where does the server
        [listen|answer|run]? / which port does the server listen on? / it listens on which port? / which
        [option|setting] sets the port? / what is --port? / what does --port do? / --port / default port? / port number?
        / tell me the port. / is the port 8080? / does it listen on port [8080|8000|11434|80]? / what is 11435? / what
        does 11435 mean? / at which port can I find the server? / I need another port.""",
        """could you tell me on which port the server listens? / what is the number of the port? / is there an option
        for a different port? / how do I run the server on another port?""",
        ("The port is 11435. The option --port changes it.",),
        mentions("11435", "--port"),
    ),
    Intent(
        "openai",
        """how do I use {it} with [OpenAI|the OpenAI client|OpenAI clients|an OpenAI client|the OpenAI library|the
        OpenAI API]? / what is the base [URL|url]? / base URL? / base_url? / which [URL|base URL|address] do I
        [use|need|give]? / what URL do I use? / what is the [URL|address] of the [server|API]? / server address? / API
        address? / API URL? / does it [support|speak|have] the OpenAI API? / is {it} compatible with [OpenAI|the OpenAI
        API]? / OpenAI API? / OpenAI? / OpenAI client? / can I use [the|an] OpenAI [client|library|API]? / can I use my
        OpenAI [program|code|app] with {it}? / how do I connect [my program|my app|an app|a client|an OpenAI client] [to
        the server|to it|to {it}]? / how do I reach the server? / where is the API? / how do other programs use {it}? /
        can other [programs|apps] use {it}? / does my OpenAI code work [here|with {it}]? / how do I call the API? / how
        do I send a request [to the server|]? / what is the endpoint? / which endpoint do I use? / how do I use the
        [API|server]? / does {it} work with OpenAI clients?""",
        """what address do I give to an OpenAI client? / can an OpenAI program connect to {it}? / which URL does my app
        need? / is the API like the API of OpenAI?""",
        ("The server speaks OpenAI's API. Give your client the base URL http://127.0.0.1:11435/v1.",),
        mentions("http://127.0.0.1:11435/v1"),
    ),
    Intent(
        "python",
        """how do I use {it} [from|in|with] Python? / can I use {it} [from|in|with] Python? / Python? / Python library?
        / is there a Python [library|API|package|module]? / does {it} have a Python [library|API|package]? / how do I
        [import|call] {it} [in|from] Python? / how do I import localllm? / how do I use it in my [own|Python]
        [program|code|script]? / can I use {it} in my own [program|code]? / show me [Python code|an example in Python|a
        Python example]. / Python example / Python code / how do I load a model in Python? / how do I run a model
        [in|from] Python? / how do I write a Python program with {it}? / what is the Python API? / which class do I use
        in Python? / what do I import? / how do I use the library? / can I use {it} as a library? / is {it} a library? /
        from Python? / without a server, from Python? / how does the Python library work? / I write Python. How do I use
        it? / I want to use {it} from Python. / what is LLM in localllm? / import localllm / how do I chat
        from Python?""",
        """can my Python program use {it}? / how does one call {it} from Python code? / I would like to load a model in
        Python. / is there a way to use {it} as a Python library?""",
        ('In Python, write from localllm import LLM and then llm = LLM("model.gguf"). llm.chat answers messages.',),
        mentions("from localllm import LLM"),
    ),
    Intent(
        "stop_answer",
        """how do I stop [an|the|your|this|a long] answer? / how can I stop [an|the|your|this] answer? / how do I stop
        you? / how can I [stop|interrupt] you? / how do I make you stop? / stop an answer / stop answer / how do I
        interrupt [you|an answer|the answer|the model]? / you talk too much. How do I stop you? / the answer is too
        long. How do I stop it? / which key stops [an|the|your] answer? / what key stops you? / how do I cancel
        [an|the|your] answer? / cancel an answer / can I [stop|interrupt|cancel] [you|an answer|the answer]? / what does
        Ctrl-C do? / Ctrl-C / Ctrl-C? / how do I stop the model [from writing|from talking|]? / how do I break off an
        answer? / is there a way to [stop|interrupt|cancel] [you|an answer]? / you do not stop. / you write too much. /
        what do I press to stop [you|an answer|the answer]? / what stops [you|an answer]? / how do I end an answer? /
        how do I end your answer?""",
        """which key is there to interrupt you? / I want to stop an answer. / what can I press when the answer is too
        long? / please tell me how to cancel your answer.""",
        ("Press Ctrl-C: it stops the answer, and the chat goes on.",),
        mentions("Ctrl-C", "stops the answer"),
    ),
    Intent(
        "leave",
        """how do I [leave|quit|exit|close|end] [the chat|this chat|this|the program|{it}|]? / how can I
        [leave|quit|exit|close|end] [the chat|this chat|this|the program]? / how do I get out [of here|of this|of the
        chat|]? / let me out. / leave the chat / quit / exit / how to quit? / how to exit? / how to leave? / I want to
        [leave|quit|exit|go]. / how do I go [away|back to the terminal]? / which key [ends|closes|leaves] the chat? /
        what does Ctrl-D do? / Ctrl-D / Ctrl-D? / what does /bye do? / /bye? / is there [a quit|an exit] command? / what
        is the command to [quit|leave|exit]? / end the chat / close the chat / can I [leave|quit|exit]? / what do I type
        to [quit|leave|exit]? / how do I finish [the|this] chat? / how do I end [the|this|our] conversation? / how do I
        return to the shell? / how do I stop the chat? / where is the exit? / how do I close this window?""",
        """what is the way out of this chat? / I would like to quit the chat. / which command ends the conversation? /
        what can I type to exit the program?""",
        ("Type /bye or press Ctrl-D to leave the chat.",),
        mentions("/bye", "Ctrl-D"),
    ),
    Intent(
        "chat_commands",
        """which commands are there [in the chat|here|]? / what commands [are there|do you have|can I use|can I type]
        [in the chat|here|]? / which commands can I [use|type] [here|in the chat|]? / commands? / list the commands. /
        list of commands / show me the commands. / chat commands? / slash commands? / what can I type [here|in the
        chat|]? / what does /help do? / what does /clear do? / /clear? / how do I clear the [chat|conversation]? / how
        do I start [a new chat|over|again|a new conversation|from the start]? / how do I [forget|reset|delete] [the
        chat|the conversation|this chat|everything]? / clear the chat / reset the chat / new chat / can you forget
        [this|what I said|our conversation|everything]? / forget [everything|our conversation|what I said|all this]. /
        what special commands do you know? / do you have commands? / tell me the commands. / is there a command to
        forget the conversation? / how do I make you forget? / delete this conversation / I want to start a new
        conversation. / what do the commands of the chat do?""",
        """can you list the commands of the chat? / is there a list of what I can type? / how can I clear our
        conversation? / which command starts a new chat?""",
        ("/help lists the commands of the chat, and /clear forgets the conversation.",),
        mentions("/help", "/clear"),
    ),
    Intent(
        "help",
        """how do I get help? / where [can|do] I [get|find] help? / where is the [help|manual|documentation|guide]? / is
        there [help|a manual|a guide|documentation|any documentation]? / I need help with {it}. / help with localllm /
        how can I learn more [about it|about {it}|]? / where can I [learn|read|find out] more [about it|about {it}|]? /
        how do I see all [options|the options|commands of localllm]? / which options [are there|does {it} have|does
        localllm run have]? / what options [are there|does {it} have|do I have]? / options? / list all options. / show
        me [the|all] options. / documentation? / manual? / README? / what does --help do? / what is --help? / --help /
        where are the docs? / how do I learn to use {it}? / does {it} have a [manual|guide|help page]? / who can help me
        with {it}? / can I read [about|more about] {it}? / what should I read [first|]? / I do not know how to use {it}.
        / all options of localllm / I am stuck.""",
        """is there a help page for {it}? / could you tell me where the manual is? / how can I list all the options? /
        where is help when I am stuck?""",
        ("Type localllm --help for the commands, or localllm run --help for options. The README says more.",),
        mentions("localllm --help"),
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
        slow?""",
        """how can I check that my machine is all right? / please explain localllm doctor. / what can I do when
        something is broken? / how do I find out which devices it can see?""",
        ("localllm doctor checks your machine: what computes here, how fast, and what would be faster.",),
        mentions("localllm doctor"),
    ),
    Intent(
        "show",
        """what does localllm show do? / what is localllm show? / localllm show / how do I see what is in a
        [model|file|GGUF file|model file]? / how can I [see|look at|inspect] [a model|a model file|a GGUF file|what is
        in a model]? / how do I [inspect|look at|look into|examine] a [model|GGUF file|file]? / what is in [a|my|this]
        [model|file|model file]? / what is inside [a|my] [model|GGUF file|file]? / show [a|the|my] model / inspect a
        model / how do I see the [size|quantization|layers|parameters|context length] of a model? / how do I find out
        [how big a model is|how many layers a model has|the size of a model|the quantization of a model]? / how many
        layers does [my|a] model have? / what is the quantization of my model? / which command shows [a model|a model's
        details|what is in a file]? / information about a model? / model information? / details of a model? / how do I
        read a GGUF header? / tell me about my model file. / how can I see the details of my model? / does my model have
        a chat template?""",
        """what can I use to look into a GGUF file? / which command shows the details of a model? / please tell me what
        localllm show does. / I want to see how many layers my model has.""",
        ("localllm show model.gguf prints what is in the file: its size, layers, quantization and more.",),
        mentions("localllm show model.gguf"),
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
        / what are the steps to install {it}? / installation steps""",
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
        run on? / Python 3.11? / does {it} support Python [3.10|3.11|3.12|3.13]? / is Python needed?""",
        """how old may my Python be? / is Python 3.12 all right for {it}? / tell me the Python version that I need. /
        with which versions of Python does it work?""",
        ("localllm needs Python 3.11 or newer.",),
        mentions("Python 3.11 or newer"),
    ),
    Intent(
        "pipe",
        """how do I [pipe|give|send|pass] [a file|text|my file|my notes] to {it}? / how do I [summarize|use|read] a
        [file|text file|document]? / can you read [a file|files|my file|my files|documents|my notes]? / can I [pipe|give
        you|send you|send] [a file|text|a document|files]? / how do I give you a file? / how do I ask about a [file|text
        file|document]? / can {it} read [stdin|from stdin|a pipe|a file|files]? / does it read stdin? / stdin? / pipe? /
        pipes? / pipe a file / how do I use [stdin|a pipe|pipes]? / can I use [it in a pipe|pipes|a pipe|stdin]? / how
        do I put a file in the prompt? / how do I add a file to my [question|prompt]? / how do I summarize [notes.txt|my
        notes|a text]? / can I upload a [file|document]? / how do I upload a file? / can you open [a file|my files]? /
        summarize a file / how do I get a file into the prompt? / is there a way to read a file? / how do I send the
        text of a file? / I have a text file. Can you read it? / use a file as [input|prompt] / can I use
        {it} with cat?""",
        """what do I type to summarize a document? / is it possible to pipe text into {it}? / I want to ask a question
        about a file. / how can a model read my notes?""",
        ('Pipe it, and it follows the prompt: cat notes.txt | localllm run model.gguf "Summarize:"',),
        mentions("cat notes.txt | localllm run model.gguf"),
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
        version? / how do I know which version I have?""",
        """please tell me which version I have. / is there a command for the version number? / how can I see which
        version this is? / what is the version of localllm?""",
        ("Type localllm --version to see the version.",),
        mentions("localllm --version"),
    ),
)
