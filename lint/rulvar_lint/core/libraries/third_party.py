"""What widely used packages do that a replay does not repeat. Data only."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.libraries.group import Group

_NETWORK: Final = "reaches the network outside the journal"
_DATABASE: Final = "reads or writes a database outside the journal"
_CONNECT: Final = "opens a connection outside the journal"
_MODEL: Final = "calls a model outside the journal and is paid again on every replay"
_HTTP_VERBS: Final = ["get", "post", "put", "patch", "delete", "head", "options", "request"]


def _each(prefixes: str, names: list[str]) -> str:
    return " ".join(f"{prefix}.{name}" for prefix in prefixes.split() for name in names)


CALLS: Final = (
    Group(
        "RLV101",
        "reads the wall clock",
        """pandas.Timestamp.now pandas.Timestamp.today pandas.Timestamp.utcnow pandas.to_datetime.now
        pendulum.now pendulum.today pendulum.tomorrow pendulum.yesterday pendulum.DateTime.now pendulum.DateTime.utcnow
        pendulum.DateTime.today arrow.now arrow.utcnow arrow.Arrow.now arrow.Arrow.utcnow
        django.utils.timezone.now django.utils.timezone.localtime django.utils.timezone.localdate
        whenever.Instant.now whenever.ZonedDateTime.now whenever.SystemDateTime.now whenever.Date.today_in_system_tz
        whenever.UTCDateTime.now maya.now moment.now moment.utcnow delorean.utcnow delorean.now delorean.Delorean
        time_machine.travel ciso8601.now sqlalchemy.func.now numpy.datetime64.now
        anyio.current_time trio.current_time""",
    ),
    Group("RLV101", "without an argument reads the wall clock", "arrow.get delorean.Delorean", "no-args"),
    Group(
        "RLV102",
        "draws from a process-wide random generator",
        """numpy.random.* torch.rand torch.randn torch.randint torch.randperm torch.rand_like torch.randn_like
        torch.randint_like torch.normal torch.bernoulli torch.multinomial torch.manual_seed torch.seed
        tensorflow.random.uniform tensorflow.random.normal tensorflow.random.shuffle
        jax.random.PRNGKey.now faker.Faker.* faker.Factory.create mimesis.Generic
        shortuuid.random petname.generate petname.Generate names.get_full_name""",
        pure="""numpy.random.default_rng numpy.random.Generator numpy.random.Generator.* numpy.random.SeedSequence
        numpy.random.RandomState numpy.random.RandomState.* numpy.random.PCG64 numpy.random.MT19937
        numpy.random.Philox numpy.random.SFC64 numpy.random.BitGenerator numpy.random.PCG64DXSM
        faker.Faker.add_provider faker.Faker.seed_instance faker.Faker.seed_locale""",
    ),
    Group(
        "RLV102",
        "without a seed takes its seed from the operating system",
        "numpy.random.default_rng numpy.random.RandomState numpy.random.SeedSequence numpy.random.PCG64 numpy.random.MT19937",
        "unseeded",
    ),
    Group("RLV102", "draws entropy from the operating system", "nacl.utils.random Crypto.Random.get_random_bytes cryptography.fernet.Fernet.generate_key"),
    Group(
        "RLV103",
        "makes a new identifier each time",
        """ulid.new ulid.ulid ulid.ULID.from_datetime nanoid.generate nanoid.non_secure_generate cuid.cuid
        cuid.slug cuid2.Cuid.generate cuid2.cuid_wrapper shortuuid.uuid shortuuid.ShortUUID.uuid shortuuid.ShortUUID.random
        ksuid.ksuid uuid_utils.uuid1 uuid_utils.uuid4 uuid_utils.uuid6 uuid_utils.uuid7
        uuid_utils.uuid8 uuid6.uuid6 uuid6.uuid7 uuid6.uuid8 uuid7.uuid7 uuid_extensions.uuid7 typeid.TypeID
        fastuuid.uuid4 fastuuid.uuid7 snowflake.SnowflakeGenerator""",
    ),
    Group(
        "RLV103",
        "without an argument makes a new identifier each time",
        "ulid.ULID bson.ObjectId bson.objectid.ObjectId ksuid.Ksuid svix_ksuid.Ksuid",
        "no-args",
    ),
    Group(
        "RLV104",
        "waits in real time again on every replay",
        "anyio.sleep trio.sleep curio.sleep gevent.sleep eventlet.sleep",
        "positive",
        "warning",
    ),
    Group("RLV104", "waits in real time again on every replay", "anyio.sleep_until anyio.sleep_forever trio.sleep_until trio.sleep_forever", severity="warning"),
    Group(
        "RLV105",
        _NETWORK,
        _each("requests httpx requests.api requests.Session requests.sessions.Session", _HTTP_VERBS)
        + " "
        + _each("httpx.Client httpx.AsyncClient", [*_HTTP_VERBS, "stream", "send"])
        + " "
        + _each("aiohttp.ClientSession", [*_HTTP_VERBS, "ws_connect"])
        + """ requests.Session.send httpx.stream aiohttp.request urllib3.request urllib3.PoolManager.request
        urllib3.PoolManager.urlopen urllib3.HTTPConnectionPool.request urllib3.HTTPSConnectionPool.request
        httplib2.Http.request treq.get treq.post niquests.get niquests.post niquests.request curl_cffi.requests.get
        curl_cffi.requests.post pycurl.Curl.perform websockets.connect websockets.sync.client.connect
        websockets.client.connect websocket.create_connection
        boto3.client.* boto3.resource.* aioboto3.client.* botocore.client.* google.cloud.storage.Client.*
        google.cloud.bigquery.Client.* google.cloud.firestore.Client.* google.cloud.pubsub.PublisherClient.*
        azure.storage.blob.BlobServiceClient.* slack_sdk.WebClient.* slack_sdk.web.async_client.AsyncWebClient.*
        github.Github.* stripe.* twilio.rest.Client.* sendgrid.SendGridAPIClient.* elasticsearch.Elasticsearch.*
        elasticsearch.AsyncElasticsearch.* opensearchpy.OpenSearch.* pinecone.Pinecone.* pinecone.Index.*
        qdrant_client.QdrantClient.* qdrant_client.AsyncQdrantClient.* weaviate.Client.* weaviate.WeaviateClient.*
        chromadb.Client.* chromadb.HttpClient.* chromadb.PersistentClient.* supabase.Client.* meilisearch.Client.*
        paramiko.SSHClient.* fabric.Connection.* kafka.KafkaProducer.* kafka.KafkaConsumer.* aiokafka.AIOKafkaProducer.*
        pika.BlockingConnection paho.mqtt.client.Client.* nats.connect dns.resolver.resolve feedparser.parse
        tavily.TavilyClient.* tavily.AsyncTavilyClient.* exa_py.Exa.* firecrawl.FirecrawlApp.* serpapi.search
        duckduckgo_search.DDGS.* wikipedia.page wikipedia.summary wikipedia.search yfinance.download yfinance.Ticker.*
        praw.Reddit.* tweepy.Client.* notion_client.Client.* notion_client.AsyncClient.* jira.JIRA.*
        playwright.async_api.Page.* selenium.webdriver.Chrome.* grpc.unary_unary huggingface_hub.hf_hub_download
        huggingface_hub.snapshot_download mcp.ClientSession.* fastmcp.Client.*""",
        pure="""boto3.client.meta boto3.client.exceptions stripe.api_key stripe.error stripe.Webhook.construct_event
        mcp.ClientSession.__aenter__ qdrant_client.QdrantClient.close weaviate.Client.close
        paramiko.SSHClient.set_missing_host_key_policy paramiko.SSHClient.load_system_host_keys
        paramiko.SSHClient.close""",
    ),
    Group("RLV105", _NETWORK, "grpc.Stub.* grpc.UnaryUnaryMultiCallable.*"),
    Group(
        "RLV105",
        _CONNECT,
        """asyncpg.connect asyncpg.create_pool psycopg.connect psycopg.Connection.connect psycopg.AsyncConnection.connect
        psycopg2.connect pymysql.connect aiomysql.connect aiomysql.create_pool aiosqlite.connect MySQLdb.connect
        mysql.connector.connect cx_Oracle.connect oracledb.connect pyodbc.connect duckdb.connect snowflake.connector.connect
        clickhouse_connect.get_client aioredis.create_redis_pool ldap3.Connection pymssql.connect
        psycopg_pool.ConnectionPool.connection psycopg_pool.AsyncConnectionPool.connection psycopg_pool.ConnectionPool.getconn
        sqlalchemy.engine.Engine.connect sqlalchemy.engine.Engine.begin sqlalchemy.engine.Engine.execute
        sqlalchemy.engine.Engine.raw_connection
        sqlalchemy.ext.asyncio.AsyncEngine.connect sqlalchemy.ext.asyncio.AsyncEngine.begin
        asyncpg.Pool.acquire asyncpg.pool.Pool.acquire""",
    ),
    Group(
        "RLV105",
        _DATABASE,
        """asyncpg.Connection.* asyncpg.Pool.* psycopg.Connection.* psycopg.AsyncConnection.* psycopg.Cursor.*
        psycopg.AsyncCursor.* psycopg2.connection.* psycopg2.cursor.* pymysql.Connection.* pymysql.Cursor.* aiomysql.Connection.*
        aiosqlite.Connection.* aiosqlite.Cursor.* duckdb.DuckDBPyConnection.* duckdb.sql duckdb.query duckdb.execute
        sqlalchemy.engine.Connection.* sqlalchemy.ext.asyncio.AsyncConnection.*
        sqlalchemy.orm.Session.* sqlalchemy.ext.asyncio.AsyncSession.* redis.Redis.* redis.asyncio.Redis.*
        redis.StrictRedis.* aioredis.Redis.* pymongo.MongoClient.* motor.motor_asyncio.AsyncIOMotorClient.*
        pymongo.AsyncMongoClient.* neo4j.Driver.* neo4j.Session.* cassandra.cluster.Session.* peewee.SqliteDatabase.*
        dbapi.Connection.* dbapi.Cursor.* tinydb.TinyDB.* elasticsearch.helpers.bulk pandas.read_sql pandas.read_sql_query
        pandas.read_sql_table""",
        pure=_each(
            """asyncpg.Connection asyncpg.Pool psycopg.Connection psycopg.AsyncConnection psycopg.Cursor
            psycopg.AsyncCursor psycopg2.connection psycopg2.cursor pymysql.Connection pymysql.Cursor aiomysql.Connection
            aiosqlite.Connection aiosqlite.Cursor duckdb.DuckDBPyConnection sqlalchemy.engine.Connection
            sqlalchemy.ext.asyncio.AsyncConnection sqlalchemy.orm.Session sqlalchemy.ext.asyncio.AsyncSession redis.Redis
            redis.asyncio.Redis redis.StrictRedis pymongo.MongoClient motor.motor_asyncio.AsyncIOMotorClient
            dbapi.Connection dbapi.Cursor""",
            ["cursor", "close", "aclose", "is_closed", "terminate", "description", "rowcount", "lastrowid", "__aenter__", "__enter__", "pipeline", "from_url", "transaction", "begin_nested", "in_transaction", "is_connected", "register_script", "add_listener", "get_default_database", "get_database", "get_collection", "with_options", "set_type_codec"],
        ),
    ),
    Group(
        "RLV106",
        _MODEL,
        """openai.OpenAI.* openai.AsyncOpenAI.* openai.AzureOpenAI.* openai.AsyncAzureOpenAI.* openai.chat.* openai.responses.*
        openai.embeddings.* openai.completions.* openai.images.* openai.audio.* openai.moderations.*
        openai.ChatCompletion.* openai.Completion.* openai.Embedding.*
        anthropic.Anthropic.* anthropic.AsyncAnthropic.* anthropic.AnthropicBedrock.* anthropic.AsyncAnthropicBedrock.*
        anthropic.AnthropicVertex.* anthropic.AsyncAnthropicVertex.*
        google.genai.Client.* google.generativeai.GenerativeModel.* google.generativeai.embed_content
        vertexai.generative_models.GenerativeModel.*
        litellm.completion litellm.acompletion litellm.embedding litellm.aembedding litellm.text_completion
        litellm.atext_completion litellm.responses litellm.aresponses litellm.image_generation litellm.aimage_generation
        litellm.moderation litellm.amoderation litellm.transcription litellm.atranscription litellm.batch_completion
        litellm.Router.completion litellm.Router.acompletion litellm.rerank litellm.arerank litellm.speech litellm.aspeech
        ollama.chat ollama.generate ollama.embed ollama.embeddings ollama.pull ollama.Client.* ollama.AsyncClient.*
        mistralai.Mistral.* mistralai.client.MistralClient.* cohere.Client.* cohere.ClientV2.* cohere.AsyncClient.*
        cohere.AsyncClientV2.* groq.Groq.* groq.AsyncGroq.* together.Together.* together.AsyncTogether.*
        fireworks.client.* replicate.run replicate.async_run replicate.Client.* huggingface_hub.InferenceClient.*
        huggingface_hub.AsyncInferenceClient.* voyageai.Client.* voyageai.AsyncClient.* xai_sdk.Client.* xai_sdk.AsyncClient.*
        pydantic_ai.Agent.run pydantic_ai.Agent.run_sync pydantic_ai.Agent.run_stream pydantic_ai.Agent.iter
        pydantic_ai.Agent.run_stream_events pydantic_ai.direct.model_request pydantic_ai.direct.model_request_sync
        agents.Runner.run agents.Runner.run_sync agents.Runner.run_streamed dspy.LM.* dspy.Predict.* dspy.ChainOfThought.*
        smolagents.CodeAgent.run smolagents.ToolCallingAgent.run crewai.Crew.kickoff crewai.Crew.kickoff_async
        autogen.AssistantAgent.generate_reply autogen.ConversableAgent.initiate_chat transformers.Pipeline.*
        llama_index.core.llms.LLM.* instructor.Instructor.* guidance.models.* outlines.generate.* marvin.*
        langgraph.Graph.invoke langgraph.Graph.ainvoke langgraph.Graph.stream langgraph.Graph.astream
        claude_agent_sdk.query aisuite.Client.*""",
        pure=_each(
            """openai.OpenAI openai.AsyncOpenAI openai.AzureOpenAI openai.AsyncAzureOpenAI anthropic.Anthropic
            anthropic.AsyncAnthropic anthropic.AnthropicBedrock anthropic.AsyncAnthropicBedrock google.genai.Client
            groq.Groq groq.AsyncGroq mistralai.Mistral instructor.Instructor dspy.LM""",
            ["with_options", "copy", "close", "aclose", "is_closed", "__aenter__", "__enter__", "base_url", "api_key"],
        ),
    ),
    Group(
        "RLV106",
        _MODEL,
        _each(
            "langchain.Runnable",
            ["invoke", "ainvoke", "stream", "astream", "batch", "abatch", "astream_events", "astream_log", "predict", "apredict", "run", "arun", "call", "acall", "generate", "agenerate", "predict_messages", "apredict_messages", "__call__", "transform", "atransform", "batch_as_completed", "abatch_as_completed", "invoke_batch"],
        ),
    ),
    Group(
        "RLV107",
        "touches the file system outside the journal",
        """aiofiles.open anyio.open_file trio.open_file numpy.load numpy.save numpy.savez numpy.loadtxt numpy.savetxt
        pandas.read_csv pandas.read_json pandas.read_parquet pandas.read_excel pandas.read_pickle pandas.read_table
        pandas.DataFrame.to_csv pandas.DataFrame.to_parquet pandas.DataFrame.to_json_file joblib.load joblib.dump
        torch.load torch.save polars.read_csv polars.read_parquet polars.scan_csv docx.Document openpyxl.load_workbook
        PIL.Image.open fitz.open pypdf.PdfReader PyPDF2.PdfReader pdfplumber.open toml.load watchfiles.watch
        watchfiles.awatch diskcache.Cache faiss.read_index faiss.write_index fsspec.open smart_open.open"""
        + " "
        + _each(
            "anyio.Path trio.Path aiopath.AsyncPath",
            ["read_text", "write_text", "read_bytes", "write_bytes", "exists", "is_file", "is_dir", "iterdir", "glob", "rglob", "mkdir", "unlink", "stat", "open", "resolve", "cwd", "home", "rename", "touch"],
        ),
    ),
    Group(
        "RLV108",
        "depends on the host it runs on",
        """dotenv.load_dotenv dotenv.dotenv_values dotenv.find_dotenv dotenv.get_key decouple.config
        environs.Env.* environ.Env.* psutil.* pydantic_settings.BaseSettings pydantic.BaseSettings starlette.config.Config.*
        distro.* platformdirs.* appdirs.* tzlocal.* ifaddr.* netifaces.* git.Repo dynaconf.Dynaconf.*
        importlib_metadata.version""",
    ),
    Group("RLV109", "starts a process outside the journal", "sh.* plumbum.local.* pexpect.spawn pexpect.run anyio.run_process anyio.open_process trio.run_process invoke.run docker.from_env docker.DockerClient.* git.Repo.* git.Git.* ffmpeg.run"),
    Group(
        "RLV110",
        "runs work outside the engine's scheduler",
        """anyio.to_thread.run_sync anyio.to_process.run_sync anyio.from_thread.run trio.to_thread.run_sync
        asgiref.sync.sync_to_async starlette.concurrency.run_in_threadpool fastapi.concurrency.run_in_threadpool
        joblib.Parallel joblib.parallel_backend ray.remote ray.get dask.compute celery.Task.delay
        anyio.to_interpreter.run_sync""",
    ),
    Group("RLV112", "waits for a person at a terminal", "click.prompt click.confirm typer.prompt typer.confirm rich.prompt.Prompt.ask rich.prompt.Confirm.ask rich.prompt.IntPrompt.ask questionary.text questionary.confirm questionary.select inquirer.prompt prompt_toolkit.prompt ipdb.set_trace pudb.set_trace"),
    Group(
        "RLV113",
        "is repeated on every replay",
        "click.echo click.secho typer.echo typer.secho rich.print rich.pretty.pprint icecream.ic "
        + _each(
            "loguru.logger structlog.BoundLogger",
            ["debug", "info", "warning", "warn", "error", "critical", "exception", "log", "trace", "success", "msg", "fatal", "adebug", "ainfo", "awarning", "aerror", "acritical", "aexception"],
        )
        + " "
        + _each("rich.console.Console", ["print", "log", "rule", "print_json", "input"])
        + " logfire.info logfire.debug logfire.warn logfire.warning logfire.error logfire.notice logfire.trace logfire.fatal",
    ),
)

RESULTS: Final = {
    "requests.session": "requests.Session",
    "requests.sessions.Session": "requests.Session",
    "requests.get": "requests.Response",
    "requests.post": "requests.Response",
    "requests.put": "requests.Response",
    "requests.patch": "requests.Response",
    "requests.delete": "requests.Response",
    "requests.head": "requests.Response",
    "requests.options": "requests.Response",
    "requests.request": "requests.Response",
    **{f"requests.Session.{verb}": "requests.Response" for verb in _HTTP_VERBS},
    **{f"httpx.{verb}": "httpx.Response" for verb in _HTTP_VERBS},
    **{f"httpx.Client.{verb}": "httpx.Response" for verb in [*_HTTP_VERBS, "send"]},
    **{f"httpx.AsyncClient.{verb}": "httpx.Response" for verb in [*_HTTP_VERBS, "send"]},
    **{f"aiohttp.ClientSession.{verb}": "aiohttp.ClientResponse" for verb in _HTTP_VERBS},
    "aiohttp.request": "aiohttp.ClientResponse",
    "urllib3.request": "urllib3.Response",
    "urllib3.PoolManager.request": "urllib3.Response",
    "asyncpg.connect": "asyncpg.Connection",
    "asyncpg.create_pool": "asyncpg.Pool",
    "asyncpg.Pool.acquire": "asyncpg.Connection",
    "psycopg.connect": "psycopg.Connection",
    "psycopg.Connection.connect": "psycopg.Connection",
    "psycopg.AsyncConnection.connect": "psycopg.AsyncConnection",
    "psycopg.Connection.cursor": "psycopg.Cursor",
    "psycopg.AsyncConnection.cursor": "psycopg.AsyncCursor",
    "psycopg.Connection.execute": "psycopg.Cursor",
    "psycopg.AsyncConnection.execute": "psycopg.AsyncCursor",
    "psycopg_pool.ConnectionPool.connection": "psycopg.Connection",
    "psycopg_pool.AsyncConnectionPool.connection": "psycopg.AsyncConnection",
    "psycopg2.connect": "psycopg2.connection",
    "psycopg2.connection.cursor": "psycopg2.cursor",
    "pymysql.connect": "pymysql.Connection",
    "pymysql.Connection.cursor": "pymysql.Cursor",
    "MySQLdb.connect": "dbapi.Connection",
    "mysql.connector.connect": "dbapi.Connection",
    "cx_Oracle.connect": "dbapi.Connection",
    "oracledb.connect": "dbapi.Connection",
    "pyodbc.connect": "dbapi.Connection",
    "snowflake.connector.connect": "dbapi.Connection",
    "dbapi.Connection.cursor": "dbapi.Cursor",
    "aiosqlite.connect": "aiosqlite.Connection",
    "aiosqlite.Connection.execute": "aiosqlite.Cursor",
    "aiosqlite.Connection.cursor": "aiosqlite.Cursor",
    "duckdb.connect": "duckdb.DuckDBPyConnection",
    "sqlalchemy.create_engine": "sqlalchemy.engine.Engine",
    "sqlalchemy.ext.asyncio.create_async_engine": "sqlalchemy.ext.asyncio.AsyncEngine",
    "sqlalchemy.engine.Engine.connect": "sqlalchemy.engine.Connection",
    "sqlalchemy.engine.Engine.begin": "sqlalchemy.engine.Connection",
    "sqlalchemy.ext.asyncio.AsyncEngine.connect": "sqlalchemy.ext.asyncio.AsyncConnection",
    "sqlalchemy.ext.asyncio.AsyncEngine.begin": "sqlalchemy.ext.asyncio.AsyncConnection",
    "sqlalchemy.orm.sessionmaker": "sqlalchemy.orm.sessionmaker",
    "sqlalchemy.orm.sessionmaker.__call__": "sqlalchemy.orm.Session",
    "sqlalchemy.orm.sessionmaker.begin": "sqlalchemy.orm.Session",
    "sqlalchemy.ext.asyncio.async_sessionmaker": "sqlalchemy.ext.asyncio.async_sessionmaker",
    "sqlalchemy.ext.asyncio.async_sessionmaker.__call__": "sqlalchemy.ext.asyncio.AsyncSession",
    "sqlalchemy.orm.scoped_session": "sqlalchemy.orm.Session",
    "redis.from_url": "redis.Redis",
    "redis.Redis.from_url": "redis.Redis",
    "redis.Redis.pipeline": "redis.Redis",
    "redis.asyncio.from_url": "redis.asyncio.Redis",
    "redis.asyncio.Redis.from_url": "redis.asyncio.Redis",
    "boto3.client": "boto3.client",
    "boto3.resource": "boto3.resource",
    "boto3.Session": "boto3.Session",
    "boto3.session.Session": "boto3.Session",
    "boto3.Session.client": "boto3.client",
    "boto3.Session.resource": "boto3.resource",
    "aioboto3.Session": "aioboto3.Session",
    "aioboto3.Session.client": "aioboto3.client",
    "neo4j.GraphDatabase.driver": "neo4j.Driver",
    "neo4j.AsyncGraphDatabase.driver": "neo4j.Driver",
    "grpc.insecure_channel": "grpc.Channel",
    "grpc.secure_channel": "grpc.Channel",
    "grpc.aio.insecure_channel": "grpc.Channel",
    "grpc.aio.secure_channel": "grpc.Channel",
    "grpc.Channel.unary_unary": "grpc.UnaryUnaryMultiCallable",
    "grpc.Channel.unary_stream": "grpc.UnaryUnaryMultiCallable",
    "structlog.get_logger": "structlog.BoundLogger",
    "structlog.getLogger": "structlog.BoundLogger",
    "structlog.stdlib.get_logger": "structlog.BoundLogger",
    "structlog.BoundLogger.bind": "structlog.BoundLogger",
    "loguru.logger.bind": "loguru.logger",
    "loguru.logger.opt": "loguru.logger",
    "instructor.from_openai": "instructor.Instructor",
    "instructor.from_anthropic": "instructor.Instructor",
    "instructor.from_provider": "instructor.Instructor",
    "instructor.patch": "instructor.Instructor",
    "transformers.pipeline": "transformers.Pipeline",
    "numpy.random.default_rng": "numpy.random.Generator",
    "anyio.create_task_group": "anyio.abc.TaskGroup",
    "trio.open_nursery": "trio.Nursery",
    "aiofiles.open": "io.IOBase",
    "slack_sdk.WebClient": "slack_sdk.WebClient",
    "langgraph.graph.StateGraph.compile": "langgraph.Graph",
    "langgraph.graph.MessageGraph.compile": "langgraph.Graph",
    "langgraph.prebuilt.create_react_agent": "langgraph.Graph",
    "langchain.agents.create_agent": "langgraph.Graph",
    "langchain.chat_models.init_chat_model": "langchain.Runnable",
    "langchain.chat_models.base.init_chat_model": "langchain.Runnable",
    "langchain.hub.pull": "langchain.Runnable",
    "pinecone.Pinecone.Index": "pinecone.Index",
    "async_timeout.timeout": "asyncio.Timeout",
    "async_timeout.timeout_at": "asyncio.Timeout",
    "anyio.fail_after": "asyncio.Timeout",
    "anyio.move_on_after": "asyncio.Timeout",
    "trio.fail_after": "asyncio.Timeout",
    "trio.fail_at": "asyncio.Timeout",
    "trio.move_on_after": "asyncio.Timeout",
    "trio.move_on_at": "asyncio.Timeout",
    "tenacity.AsyncRetrying": "tenacity.Retrying",
    "tenacity.Retrying": "tenacity.Retrying",
    "tenacity.retry": "tenacity.Retrying",
    "stamina.retry_context": "tenacity.Retrying",
    "stamina.AsyncRetryingCaller": "tenacity.Retrying",
    "stamina.RetryingCaller": "tenacity.Retrying",
    "retrying.Retrying": "tenacity.Retrying",
}

TYPES: Final = frozenset(
    ["httpx.Client", "httpx.AsyncClient", "requests.Session", "aiohttp.ClientSession", "urllib3.PoolManager", "urllib3.HTTPConnectionPool", "urllib3.HTTPSConnectionPool", "httplib2.Http", "redis.Redis", "redis.StrictRedis", "redis.asyncio.Redis", "aioredis.Redis", "pymongo.MongoClient", "pymongo.AsyncMongoClient", "motor.motor_asyncio.AsyncIOMotorClient", "openai.OpenAI", "openai.AsyncOpenAI", "openai.AzureOpenAI", "openai.AsyncAzureOpenAI", "anthropic.Anthropic", "anthropic.AsyncAnthropic", "anthropic.AnthropicBedrock", "anthropic.AsyncAnthropicBedrock", "anthropic.AnthropicVertex", "anthropic.AsyncAnthropicVertex", "google.genai.Client", "google.generativeai.GenerativeModel", "vertexai.generative_models.GenerativeModel", "ollama.Client", "ollama.AsyncClient", "mistralai.Mistral", "cohere.Client", "mistralai.client.MistralClient", "cohere.ClientV2", "cohere.AsyncClient", "cohere.AsyncClientV2", "groq.Groq", "groq.AsyncGroq", "together.Together", "together.AsyncTogether", "replicate.Client", "huggingface_hub.InferenceClient", "huggingface_hub.AsyncInferenceClient", "voyageai.Client", "voyageai.AsyncClient", "xai_sdk.Client", "xai_sdk.AsyncClient", "litellm.Router", "pydantic_ai.Agent", "dspy.LM", "dspy.Predict", "dspy.ChainOfThought", "smolagents.CodeAgent", "smolagents.ToolCallingAgent", "crewai.Crew", "autogen.AssistantAgent", "autogen.ConversableAgent", "numpy.random.Generator", "numpy.random.RandomState", "faker.Faker", "cuid2.Cuid", "shortuuid.ShortUUID", "google.cloud.storage.Client", "google.cloud.bigquery.Client", "google.cloud.firestore.Client", "google.cloud.pubsub.PublisherClient", "azure.storage.blob.BlobServiceClient", "slack_sdk.WebClient", "slack_sdk.web.async_client.AsyncWebClient", "github.Github", "twilio.rest.Client", "sendgrid.SendGridAPIClient", "elasticsearch.Elasticsearch", "elasticsearch.AsyncElasticsearch", "opensearchpy.OpenSearch", "pinecone.Pinecone", "pinecone.Index", "qdrant_client.QdrantClient", "qdrant_client.AsyncQdrantClient", "weaviate.Client", "weaviate.WeaviateClient", "chromadb.Client", "chromadb.HttpClient", "chromadb.PersistentClient", "supabase.Client", "meilisearch.Client", "paramiko.SSHClient", "fabric.Connection", "kafka.KafkaProducer", "kafka.KafkaConsumer", "aiokafka.AIOKafkaProducer", "paho.mqtt.client.Client", "tavily.TavilyClient", "tavily.AsyncTavilyClient", "exa_py.Exa", "firecrawl.FirecrawlApp", "duckduckgo_search.DDGS", "yfinance.Ticker", "praw.Reddit", "tweepy.Client", "notion_client.Client", "notion_client.AsyncClient", "jira.JIRA", "selenium.webdriver.Chrome", "sqlalchemy.orm.Session", "sqlalchemy.ext.asyncio.AsyncSession", "asyncpg.Connection", "asyncpg.Pool", "psycopg.Connection", "psycopg.AsyncConnection", "neo4j.Driver", "rich.console.Console", "environs.Env", "docker.DockerClient", "git.Repo", "pendulum.DateTime", "arrow.Arrow", "pandas.Timestamp", "pandas.DataFrame", "anyio.Path", "trio.Path", "mcp.ClientSession", "fastmcp.Client", "psycopg_pool.ConnectionPool", "psycopg_pool.AsyncConnectionPool", "sqlalchemy.engine.Engine", "sqlalchemy.ext.asyncio.AsyncEngine", "llama_index.core.llms.LLM", "sqlalchemy.engine.Connection", "sqlalchemy.ext.asyncio.AsyncConnection", "tinydb.TinyDB", "aisuite.Client", "playwright.async_api.Page", "boto3.client", "aiosqlite.Connection", "langgraph.Graph"]
)

SAME_TYPE: Final = {
    "openai.AsyncOpenAI": ["with_options", "copy"],
    "openai.OpenAI": ["with_options", "copy"],
    "anthropic.Anthropic": ["with_options", "copy"],
    "anthropic.AsyncAnthropic": ["with_options", "copy"],
    "langchain.Runnable": ["with_structured_output", "bind", "bind_tools", "with_config", "with_retry", "with_fallbacks", "pipe", "assign", "pick", "with_types", "with_listeners", "map", "configurable_fields", "configurable_alternatives", "__or__", "__ror__", "as_tool"],
}

MEMBERS: Final = {"google.genai.Client.aio": "google.genai.Client"}

ELEMENTS: Final = {"pymongo.MongoClient": "pymongo.MongoClient"}

ALIASES: Final = {
    "numpy.core.random": "numpy.random",
    "pandas._libs.tslibs.timestamps": "pandas",
    "google.genai.client": "google.genai",
    "openai._client": "openai",
    "httpx._client": "httpx",
    "aiohttp.client": "aiohttp",
    "sqlalchemy.Engine": "sqlalchemy.engine.Engine",
    "sqlalchemy.orm.session.Session": "sqlalchemy.orm.Session",
    "redis.client.Redis": "redis.Redis",
    "psycopg2.extensions.connection": "psycopg2.connection",
    "asyncpg.pool.Pool": "asyncpg.Pool",
    "asyncpg.connection.Connection": "asyncpg.Connection",
    "langgraph.graph.state.CompiledStateGraph": "langgraph.Graph",
}
