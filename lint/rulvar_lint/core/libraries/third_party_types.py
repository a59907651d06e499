"""What the functions of widely used packages give, and which of their classes matter. Data only."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.words import names, words

HTTP_VERBS: Final = words("get post put patch delete head options request")

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
    **{f"requests.Session.{verb}": "requests.Response" for verb in HTTP_VERBS},
    **{f"httpx.{verb}": "httpx.Response" for verb in HTTP_VERBS},
    **{f"httpx.Client.{verb}": "httpx.Response" for verb in [*HTTP_VERBS, "send"]},
    **{f"httpx.AsyncClient.{verb}": "httpx.Response" for verb in [*HTTP_VERBS, "send"]},
    **{f"aiohttp.ClientSession.{verb}": "aiohttp.ClientResponse" for verb in HTTP_VERBS},
    "aiohttp.request": "aiohttp.ClientResponse",
    "aiohttp.ClientResponse.read": "builtins.bytes",
    "httpx.Response.aread": "builtins.bytes",
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
    **dict.fromkeys(
        words(
            """websockets.connect websockets.client.connect websockets.sync.client.connect
    websockets.asyncio.client.connect websocket.create_connection aiohttp.ClientSession.ws_connect"""
        ),
        "websockets.Connection",
    ),
    "nats.connect": "nats.Client",
    "pika.BlockingConnection.channel": "pika.Channel",
    "clickhouse_connect.get_client": "clickhouse_connect.Client",
    "boto3.client.get_paginator": "boto3.Waiting",
    "boto3.client.get_waiter": "boto3.Waiting",
    "neo4j.Driver.session": "neo4j.Session",
    "cassandra.cluster.Cluster.connect": "cassandra.cluster.Session",
    "google.cloud.storage.Client.bucket": "google.cloud.storage.Bucket",
    "google.cloud.storage.Bucket.blob": "google.cloud.storage.Blob",
    "aiomysql.connect": "dbapi.Connection",
    "pymssql.connect": "dbapi.Connection",
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
    "cuid2.cuid_wrapper": "cuid2.CuidWrapper",
    "redis.from_url": "redis.Redis",
    "redis.Redis.from_url": "redis.Redis",
    "redis.Redis.pipeline": "redis.Pipeline",
    "redis.asyncio.Redis.pipeline": "redis.Pipeline",
    "redis.asyncio.from_url": "redis.asyncio.Redis",
    "redis.asyncio.Redis.from_url": "redis.asyncio.Redis",
    "boto3.client": "boto3.client",
    "boto3.resource": "boto3.resource",
    "boto3.resource.Table": "boto3.resource",
    "boto3.resource.Bucket": "boto3.resource",
    "boto3.resource.Queue": "boto3.resource",
    "boto3.resource.Topic": "boto3.resource",
    "boto3.resource.Object": "boto3.resource",
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


TYPES: Final = names("""httpx.Client httpx.AsyncClient requests.Session aiohttp.ClientSession
    urllib3.PoolManager urllib3.HTTPConnectionPool urllib3.HTTPSConnectionPool
    httplib2.Http redis.Redis redis.StrictRedis redis.asyncio.Redis aioredis.Redis
    pika.BlockingConnection ldap3.Connection cassandra.cluster.Cluster
    pymongo.MongoClient pymongo.AsyncMongoClient motor.motor_asyncio.AsyncIOMotorClient
    openai.OpenAI openai.AsyncOpenAI openai.AzureOpenAI openai.AsyncAzureOpenAI
    anthropic.Anthropic anthropic.AsyncAnthropic anthropic.AnthropicBedrock
    anthropic.AsyncAnthropicBedrock anthropic.AnthropicVertex
    anthropic.AsyncAnthropicVertex google.genai.Client
    google.generativeai.GenerativeModel vertexai.generative_models.GenerativeModel
    ollama.Client ollama.AsyncClient mistralai.Mistral cohere.Client
    mistralai.client.MistralClient cohere.ClientV2 cohere.AsyncClient
    cohere.AsyncClientV2 groq.Groq groq.AsyncGroq together.Together
    together.AsyncTogether replicate.Client huggingface_hub.InferenceClient
    huggingface_hub.AsyncInferenceClient voyageai.Client voyageai.AsyncClient
    xai_sdk.Client xai_sdk.AsyncClient litellm.Router pydantic_ai.Agent dspy.LM
    dspy.Predict dspy.ChainOfThought smolagents.CodeAgent smolagents.ToolCallingAgent
    crewai.Crew autogen.AssistantAgent autogen.ConversableAgent numpy.random.Generator
    numpy.random.RandomState faker.Faker cuid2.Cuid shortuuid.ShortUUID
    google.cloud.storage.Client google.cloud.bigquery.Client
    google.cloud.firestore.Client google.cloud.pubsub.PublisherClient
    azure.storage.blob.BlobServiceClient slack_sdk.WebClient
    slack_sdk.web.async_client.AsyncWebClient github.Github twilio.rest.Client
    sendgrid.SendGridAPIClient elasticsearch.Elasticsearch
    elasticsearch.AsyncElasticsearch opensearchpy.OpenSearch pinecone.Pinecone
    pinecone.Index qdrant_client.QdrantClient qdrant_client.AsyncQdrantClient
    weaviate.Client weaviate.WeaviateClient chromadb.Client chromadb.HttpClient
    chromadb.PersistentClient supabase.Client meilisearch.Client paramiko.SSHClient
    fabric.Connection kafka.KafkaProducer kafka.KafkaConsumer aiokafka.AIOKafkaProducer
    paho.mqtt.client.Client tavily.TavilyClient tavily.AsyncTavilyClient exa_py.Exa
    firecrawl.FirecrawlApp duckduckgo_search.DDGS yfinance.Ticker praw.Reddit
    tweepy.Client notion_client.Client notion_client.AsyncClient jira.JIRA
    selenium.webdriver.Chrome sqlalchemy.orm.Session sqlalchemy.ext.asyncio.AsyncSession
    asyncpg.Connection asyncpg.Pool psycopg.Connection psycopg.AsyncConnection
    neo4j.Driver rich.console.Console environs.Env docker.DockerClient git.Repo
    pendulum.DateTime arrow.Arrow pandas.Timestamp pandas.DataFrame anyio.Path trio.Path
    mcp.ClientSession fastmcp.Client psycopg_pool.ConnectionPool
    psycopg_pool.AsyncConnectionPool sqlalchemy.engine.Engine
    sqlalchemy.ext.asyncio.AsyncEngine llama_index.core.llms.LLM
    sqlalchemy.engine.Connection sqlalchemy.ext.asyncio.AsyncConnection tinydb.TinyDB
    aisuite.Client playwright.async_api.Page boto3.client aiosqlite.Connection
    langgraph.Graph""")


SAME_TYPE: Final = {
    "openai.AsyncOpenAI": ["with_options", "copy"],
    "openai.OpenAI": ["with_options", "copy"],
    "anthropic.Anthropic": ["with_options", "copy"],
    "anthropic.AsyncAnthropic": ["with_options", "copy"],
    "langchain.Runnable": words(
        """with_structured_output bind bind_tools with_config with_retry with_fallbacks pipe
    assign pick with_types with_listeners map configurable_fields
    configurable_alternatives __or__ __ror__ as_tool"""
    ),
}


MEMBERS: Final = {
    "google.genai.Client.aio": "google.genai.Client",
    "requests.Response.content": "builtins.bytes",
    "httpx.Response.content": "builtins.bytes",
    "urllib3.Response.data": "builtins.bytes",
}


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
