"""What widely used packages do that a replay does not repeat. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rulvar_lint.core.libraries.group import Group
from rulvar_lint.core.libraries.third_party_types import HTTP_VERBS
from rulvar_lint.core.words import words

_NETWORK: Final = "reaches the network outside the journal"
_DATABASE: Final = "reads or writes a database outside the journal"
_CONNECT: Final = "opens a connection outside the journal"
_MODEL: Final = "calls a model outside the journal and is paid again on every replay"


def _each(prefixes: str, names: Iterable[str]) -> str:
    return " ".join(f"{prefix}.{name}" for prefix in prefixes.split() for name in names)


CALLS: Final = (
    Group(
        "RLV101",
        "reads the wall clock",
        """pandas.Timestamp.now pandas.Timestamp.today pandas.Timestamp.utcnow
        pandas.to_datetime.now pendulum.now pendulum.today pendulum.tomorrow pendulum.yesterday
        pendulum.DateTime.now pendulum.DateTime.utcnow pendulum.DateTime.today arrow.now
        arrow.utcnow arrow.Arrow.now arrow.Arrow.utcnow django.utils.timezone.now
        whenever.Instant.now whenever.ZonedDateTime.now whenever.SystemDateTime.now whenever.Date.today_in_system_tz
        whenever.UTCDateTime.now maya.now moment.now moment.utcnow delorean.utcnow delorean.now
        delorean.Delorean time_machine.travel ciso8601.now sqlalchemy.func.now
        numpy.datetime64.now dateutil.utils.today anyio.current_time trio.current_time""",
    ),
    Group(
        "RLV101",
        "without an argument reads the wall clock",
        """arrow.get delorean.Delorean django.utils.timezone.localtime
        django.utils.timezone.localdate""",
        "no-args",
    ),
    Group(
        "RLV101",
        "reads the wall clock for this argument",
        "pandas.Timestamp pandas.to_datetime numpy.datetime64",
        "now",
    ),
    Group(
        "RLV102",
        "draws from a process-wide random generator",
        """numpy.random.* torch.rand torch.randn torch.randint torch.randperm torch.rand_like
        torch.randn_like torch.randint_like torch.normal torch.bernoulli torch.multinomial
        torch.manual_seed torch.seed tensorflow.random.uniform tensorflow.random.normal
        tensorflow.random.shuffle jax.random.PRNGKey.now faker.Faker.* faker.Factory.create
        mimesis.Generic shortuuid.random petname.generate petname.Generate names.get_full_name""",
        pure="""numpy.random.default_rng numpy.random.Generator numpy.random.Generator.*
        numpy.random.SeedSequence numpy.random.RandomState numpy.random.RandomState.*
        numpy.random.PCG64 numpy.random.MT19937 numpy.random.Philox numpy.random.SFC64
        numpy.random.BitGenerator numpy.random.PCG64DXSM faker.Faker.add_provider
        faker.Faker.seed_instance faker.Faker.seed_locale""",
    ),
    Group(
        "RLV102",
        "without a seed takes its seed from the operating system",
        """numpy.random.default_rng numpy.random.RandomState numpy.random.SeedSequence
        numpy.random.PCG64 numpy.random.MT19937""",
        "unseeded",
    ),
    Group(
        "RLV102",
        "draws entropy from the operating system",
        "nacl.utils.random Crypto.Random.get_random_bytes cryptography.fernet.Fernet.generate_key",
    ),
    Group(
        "RLV103",
        "makes a new identifier each time",
        """ulid.new ulid.ulid ulid.ULID.from_datetime nanoid.generate nanoid.non_secure_generate
        cuid.cuid cuid.slug cuid2.Cuid.generate cuid2.CuidWrapper.__call__ shortuuid.uuid
        shortuuid.ShortUUID.uuid shortuuid.ShortUUID.random ksuid.ksuid xid.Xid uuid_utils.uuid1
        uuid_utils.uuid4 uuid_utils.uuid6 uuid_utils.uuid7 uuid_utils.uuid8 uuid6.uuid6
        uuid6.uuid7 uuid6.uuid8 uuid7.uuid7 uuid_extensions.uuid7 typeid.TypeID fastuuid.uuid4
        fastuuid.uuid7 snowflake.SnowflakeGenerator""",
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
    Group(
        "RLV104",
        "waits in real time again on every replay",
        "anyio.sleep_until anyio.sleep_forever trio.sleep_until trio.sleep_forever",
        severity="warning",
    ),
    Group(
        "RLV105",
        _NETWORK,
        _each("requests httpx requests.api requests.Session requests.sessions.Session", HTTP_VERBS)
        + " "
        + _each("httpx.Client httpx.AsyncClient", [*HTTP_VERBS, "stream", "send"])
        + " "
        + _each("aiohttp.ClientSession", [*HTTP_VERBS, "ws_connect"])
        + """ requests.Session.send httpx.stream aiohttp.request urllib3.request
        urllib3.PoolManager.request urllib3.PoolManager.urlopen
        urllib3.HTTPConnectionPool.request urllib3.HTTPSConnectionPool.request
        httplib2.Http.request treq.get treq.post niquests.get niquests.post niquests.request
        curl_cffi.requests.get curl_cffi.requests.post pycurl.Curl.perform websockets.connect
        websockets.sync.client.connect websockets.client.connect websocket.create_connection
        boto3.client.* boto3.resource.* aioboto3.client.* botocore.client.*
        google.cloud.storage.Client.* google.cloud.bigquery.Client.*
        google.cloud.firestore.Client.* google.cloud.pubsub.PublisherClient.*
        azure.storage.blob.BlobServiceClient.* slack_sdk.WebClient.*
        slack_sdk.web.async_client.AsyncWebClient.* github.Github.* stripe.*
        twilio.rest.Client.* sendgrid.SendGridAPIClient.* elasticsearch.Elasticsearch.*
        elasticsearch.AsyncElasticsearch.* opensearchpy.OpenSearch.* pinecone.Pinecone.*
        pinecone.Index.* qdrant_client.QdrantClient.* qdrant_client.AsyncQdrantClient.*
        weaviate.Client.* weaviate.WeaviateClient.* chromadb.Client.* chromadb.HttpClient.*
        chromadb.PersistentClient.* supabase.Client.* meilisearch.Client.* paramiko.SSHClient.*
        fabric.Connection.* kafka.KafkaProducer.* kafka.KafkaConsumer.*
        aiokafka.AIOKafkaProducer.* pika.BlockingConnection paho.mqtt.client.Client.*
        nats.connect dns.resolver.resolve feedparser.parse tavily.TavilyClient.*
        tavily.AsyncTavilyClient.* exa_py.Exa.* firecrawl.FirecrawlApp.* serpapi.search
        duckduckgo_search.DDGS.* wikipedia.page wikipedia.summary wikipedia.search
        yfinance.download yfinance.Ticker.* praw.Reddit.* tweepy.Client.* notion_client.Client.*
        notion_client.AsyncClient.* jira.JIRA.* playwright.async_api.Page.*
        selenium.webdriver.Chrome.* grpc.unary_unary huggingface_hub.hf_hub_download
        huggingface_hub.snapshot_download mcp.ClientSession.* fastmcp.Client.*""",
        pure="""google.cloud.storage.Client.bucket boto3.resource.Table boto3.resource.Bucket boto3.resource.Queue
        boto3.resource.Topic boto3.resource.Object boto3.resource.meta
        boto3.client.get_paginator boto3.client.get_waiter boto3.client.meta
        boto3.client.exceptions stripe.api_key stripe.error stripe.Webhook.construct_event
        mcp.ClientSession.__aenter__ qdrant_client.QdrantClient.close weaviate.Client.close
        paramiko.SSHClient.set_missing_host_key_policy paramiko.SSHClient.load_system_host_keys
        paramiko.SSHClient.close""",
    ),
    Group("RLV105", _NETWORK, "grpc.Stub.* grpc.UnaryUnaryMultiCallable.*"),
    Group(
        "RLV105",
        _NETWORK,
        """websockets.Connection.* nats.Client.* pika.Channel.* ldap3.Connection.*
        clickhouse_connect.Client.* boto3.Waiting.* cassandra.cluster.Cluster.connect
        google.cloud.storage.Bucket.* google.cloud.storage.Blob.*""",
        pure="""websockets.Connection.close websockets.Connection.closed nats.Client.is_connected
        pika.Channel.close clickhouse_connect.Client.close google.cloud.storage.Bucket.blob
        google.cloud.storage.Bucket.name google.cloud.storage.Blob.name""",
    ),
    Group(
        "RLV105",
        _CONNECT,
        """asyncpg.connect asyncpg.create_pool psycopg.connect psycopg.Connection.connect
        psycopg.AsyncConnection.connect psycopg2.connect pymysql.connect aiomysql.connect
        aiomysql.create_pool aiosqlite.connect MySQLdb.connect mysql.connector.connect
        cx_Oracle.connect oracledb.connect pyodbc.connect duckdb.connect
        snowflake.connector.connect clickhouse_connect.get_client aioredis.create_redis_pool
        ldap3.Connection pymssql.connect psycopg_pool.ConnectionPool.connection
        psycopg_pool.AsyncConnectionPool.connection psycopg_pool.ConnectionPool.getconn
        sqlalchemy.engine.Engine.connect sqlalchemy.engine.Engine.begin
        sqlalchemy.engine.Engine.execute sqlalchemy.engine.Engine.raw_connection
        sqlalchemy.ext.asyncio.AsyncEngine.connect sqlalchemy.ext.asyncio.AsyncEngine.begin
        asyncpg.Pool.acquire asyncpg.pool.Pool.acquire""",
    ),
    Group(
        "RLV105",
        _DATABASE,
        """asyncpg.Connection.* asyncpg.Pool.* psycopg.Connection.* psycopg.AsyncConnection.*
        psycopg.Cursor.* psycopg.AsyncCursor.* psycopg2.connection.* psycopg2.cursor.*
        pymysql.Connection.* pymysql.Cursor.* aiomysql.Connection.* aiosqlite.Connection.*
        aiosqlite.Cursor.* duckdb.DuckDBPyConnection.* duckdb.sql duckdb.query duckdb.execute
        sqlalchemy.engine.Connection.* sqlalchemy.ext.asyncio.AsyncConnection.*
        sqlalchemy.orm.Session.* sqlalchemy.ext.asyncio.AsyncSession.* redis.Redis.* redis.Pipeline.execute
        redis.asyncio.Redis.* redis.StrictRedis.* aioredis.Redis.* pymongo.MongoClient.*
        motor.motor_asyncio.AsyncIOMotorClient.* pymongo.AsyncMongoClient.* neo4j.Driver.*
        neo4j.Session.* cassandra.cluster.Session.* peewee.SqliteDatabase.* dbapi.Connection.*
        dbapi.Cursor.* tinydb.TinyDB.* elasticsearch.helpers.bulk pandas.read_sql
        pandas.read_sql_query pandas.read_sql_table""",
        pure=_each(
            """asyncpg.Connection asyncpg.Pool psycopg.Connection psycopg.AsyncConnection
            psycopg.Cursor psycopg.AsyncCursor psycopg2.connection psycopg2.cursor
            pymysql.Connection pymysql.Cursor aiomysql.Connection aiosqlite.Connection
            aiosqlite.Cursor duckdb.DuckDBPyConnection sqlalchemy.engine.Connection
            sqlalchemy.ext.asyncio.AsyncConnection sqlalchemy.orm.Session
            sqlalchemy.ext.asyncio.AsyncSession redis.Redis redis.asyncio.Redis
            redis.StrictRedis pymongo.MongoClient motor.motor_asyncio.AsyncIOMotorClient
            dbapi.Connection dbapi.Cursor neo4j.Driver neo4j.Session""",
            words(
                """cursor close aclose is_closed terminate description rowcount lastrowid __aenter__
    __enter__ session pipeline from_url transaction begin_nested in_transaction is_connected
    register_script add_listener get_default_database get_database get_collection
    with_options set_type_codec"""
            ),
        ),
    ),
    Group(
        "RLV106",
        _MODEL,
        """openai.OpenAI.* openai.AsyncOpenAI.* openai.AzureOpenAI.* openai.AsyncAzureOpenAI.*
        openai.chat.* openai.responses.* openai.embeddings.* openai.completions.*
        openai.images.* openai.audio.* openai.moderations.* openai.ChatCompletion.*
        openai.Completion.* openai.Embedding.* anthropic.Anthropic.* anthropic.AsyncAnthropic.*
        anthropic.AnthropicBedrock.* anthropic.AsyncAnthropicBedrock.*
        anthropic.AnthropicVertex.* anthropic.AsyncAnthropicVertex.* google.genai.Client.*
        google.generativeai.GenerativeModel.* google.generativeai.embed_content
        vertexai.generative_models.GenerativeModel.* litellm.completion litellm.acompletion
        litellm.embedding litellm.aembedding litellm.text_completion litellm.atext_completion
        litellm.responses litellm.aresponses litellm.image_generation litellm.aimage_generation
        litellm.moderation litellm.amoderation litellm.transcription litellm.atranscription
        litellm.batch_completion litellm.Router.completion litellm.Router.acompletion
        litellm.rerank litellm.arerank litellm.speech litellm.aspeech ollama.chat
        ollama.generate ollama.embed ollama.embeddings ollama.pull ollama.Client.*
        ollama.AsyncClient.* mistralai.Mistral.* mistralai.client.MistralClient.*
        cohere.Client.* cohere.ClientV2.* cohere.AsyncClient.* cohere.AsyncClientV2.*
        groq.Groq.* groq.AsyncGroq.* together.Together.* together.AsyncTogether.*
        fireworks.client.* replicate.run replicate.async_run replicate.Client.*
        huggingface_hub.InferenceClient.* huggingface_hub.AsyncInferenceClient.*
        voyageai.Client.* voyageai.AsyncClient.* xai_sdk.Client.* xai_sdk.AsyncClient.*
        pydantic_ai.Agent.run pydantic_ai.Agent.run_sync pydantic_ai.Agent.run_stream
        pydantic_ai.Agent.iter pydantic_ai.Agent.run_stream_events
        pydantic_ai.direct.model_request pydantic_ai.direct.model_request_sync agents.Runner.run
        agents.Runner.run_sync agents.Runner.run_streamed dspy.LM.* dspy.Predict.*
        dspy.ChainOfThought.* smolagents.CodeAgent.run smolagents.ToolCallingAgent.run
        crewai.Crew.kickoff crewai.Crew.kickoff_async autogen.AssistantAgent.generate_reply
        autogen.ConversableAgent.initiate_chat transformers.Pipeline.*
        llama_index.core.llms.LLM.* instructor.Instructor.* guidance.models.*
        outlines.generate.* marvin.* langgraph.Graph.invoke langgraph.Graph.ainvoke
        langgraph.Graph.stream langgraph.Graph.astream claude_agent_sdk.query aisuite.Client.*""",
        pure=_each(
            """openai.OpenAI openai.AsyncOpenAI openai.AzureOpenAI openai.AsyncAzureOpenAI
            anthropic.Anthropic anthropic.AsyncAnthropic anthropic.AnthropicBedrock
            anthropic.AsyncAnthropicBedrock google.genai.Client groq.Groq groq.AsyncGroq
            mistralai.Mistral instructor.Instructor dspy.LM""",
            words("""with_options copy close aclose is_closed __aenter__ __enter__ base_url api_key"""),
        ),
    ),
    Group(
        "RLV106",
        _MODEL,
        _each(
            "langchain.Runnable",
            words(
                """invoke ainvoke stream astream batch abatch astream_events astream_log predict
    apredict run arun call acall generate agenerate predict_messages apredict_messages
    embed_query aembed_query embed_documents aembed_documents __call__ transform atransform batch_as_completed abatch_as_completed invoke_batch"""
            ),
        ),
    ),
    Group(
        "RLV107",
        "touches the file system outside the journal",
        """aiofiles.open anyio.open_file trio.open_file numpy.load numpy.save numpy.savez
        numpy.loadtxt numpy.savetxt pandas.read_csv pandas.read_json pandas.read_parquet
        pandas.read_excel pandas.read_pickle pandas.read_table pandas.DataFrame.to_csv
        pandas.DataFrame.to_parquet pandas.DataFrame.to_json_file joblib.load joblib.dump
        torch.load torch.save polars.read_csv polars.read_parquet polars.scan_csv docx.Document
        openpyxl.load_workbook PIL.Image.open fitz.open pypdf.PdfReader PyPDF2.PdfReader
        pdfplumber.open toml.load watchfiles.watch watchfiles.awatch diskcache.Cache
        faiss.read_index faiss.write_index fsspec.open smart_open.open"""
        + " "
        + _each(
            "anyio.Path trio.Path aiopath.AsyncPath",
            words(
                """read_text write_text read_bytes write_bytes exists is_file is_dir iterdir
                glob rglob mkdir unlink stat open resolve cwd home rename touch"""
            ),
        ),
    ),
    Group(
        "RLV108",
        "depends on the host it runs on",
        """dotenv.load_dotenv dotenv.dotenv_values dotenv.find_dotenv dotenv.get_key
        decouple.config environs.Env.* environ.Env.* psutil.* pydantic_settings.BaseSettings
        pydantic.BaseSettings starlette.config.Config.* distro.* platformdirs.* appdirs.*
        tzlocal.* ifaddr.* netifaces.* git.Repo dynaconf.Dynaconf.* importlib_metadata.version""",
    ),
    Group(
        "RLV109",
        "starts a process outside the journal",
        """sh.* plumbum.local.* pexpect.spawn pexpect.run anyio.run_process anyio.open_process
        trio.run_process invoke.run docker.from_env docker.DockerClient.* git.Repo.* git.Git.*
        ffmpeg.run""",
    ),
    Group(
        "RLV110",
        "runs work outside the engine's scheduler",
        """anyio.to_thread.run_sync anyio.to_process.run_sync anyio.from_thread.run
        trio.to_thread.run_sync asgiref.sync.sync_to_async
        starlette.concurrency.run_in_threadpool fastapi.concurrency.run_in_threadpool
        joblib.Parallel joblib.parallel_backend ray.remote ray.get dask.compute
        celery.Task.delay anyio.to_interpreter.run_sync""",
    ),
    Group(
        "RLV112",
        "waits for a person at a terminal",
        """click.prompt click.confirm typer.prompt typer.confirm rich.prompt.Prompt.ask
        rich.prompt.Confirm.ask rich.prompt.IntPrompt.ask questionary.text questionary.confirm
        questionary.select inquirer.prompt prompt_toolkit.prompt ipdb.set_trace pudb.set_trace""",
    ),
    Group(
        "RLV113",
        "is repeated on every replay",
        "click.echo click.secho typer.echo typer.secho rich.print rich.pretty.pprint icecream.ic "
        + _each(
            "loguru.logger structlog.BoundLogger",
            words(
                """debug info warning warn error critical exception log trace success msg fatal
                adebug ainfo awarning aerror acritical aexception"""
            ),
        )
        + " "
        + _each("rich.console.Console", words("print log rule print_json input"))
        + """ logfire.info logfire.debug logfire.warn logfire.warning logfire.error
        logfire.notice logfire.trace logfire.fatal""",
    ),
)
