"""What the standard library does that a replay does not repeat. Data only."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.libraries.group import Group
from rulvar_lint.core.words import names, words

CALLS: Final = (
    Group(
        "RLV101",
        "reads the wall clock",
        """datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today
        datetime.date.today time.time time.time_ns time.clock_gettime time.clock_gettime_ns""",
    ),
    Group(
        "RLV101",
        "reads the process clock",
        """time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns
        time.process_time time.process_time_ns time.thread_time time.thread_time_ns
        time.get_clock_info time.pthread_getcpuclockid timeit.default_timer timeit.timeit
        timeit.repeat os.times asyncio.AbstractEventLoop.time sched.scheduler.timefunc""",
    ),
    Group(
        "RLV101",
        "without an argument reads the wall clock",
        "time.gmtime time.localtime time.ctime email.utils.formatdate email.utils.localtime",
        "no-args",
    ),
    Group("RLV101", "without a time tuple reads the wall clock", "time.asctime", "no-args"),
    Group("RLV101", "without a time tuple reads the wall clock", "time.strftime", "few-args"),
    Group(
        "RLV102",
        "draws from the process-wide random generator",
        "random.*",
        pure="""random.Random random.Random.* random.SystemRandom random.SystemRandom.*
        random.SecureRandom random.BPF random.LOG4 random.NV_MAGICCONST random.RECIP_BPF
        random.SG_MAGICCONST random.TWOPI""",
    ),
    Group(
        "RLV102",
        "without a seed takes its seed from the operating system",
        "random.Random",
        "unseeded",
    ),
    Group(
        "RLV102",
        "draws entropy from the operating system",
        """random.SystemRandom random.SecureRandom os.urandom os.getrandom ssl.RAND_bytes""",
    ),
    Group(
        "RLV102",
        "draws entropy from the operating system",
        "secrets.*",
        pure="secrets.compare_digest secrets.DEFAULT_ENTROPY",
    ),
    Group(
        "RLV103",
        "makes a new identifier each time",
        "uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.uuid8 uuid.getnode email.utils.make_msgid",
    ),
    Group("RLV104", "blocks and waits again on every replay", "time.sleep", "positive"),
    Group("RLV104", "blocks and waits again on every replay", "signal.pause"),
    Group("RLV104", "waits in real time again on every replay", "asyncio.sleep", "positive", "warning"),
    Group(
        "RLV104",
        "arms a timer outside the journal",
        """threading.Timer sched.scheduler sched.scheduler.* asyncio.AbstractEventLoop.call_later
        asyncio.AbstractEventLoop.call_at""",
        severity="warning",
        pure="sched.scheduler.timefunc",
    ),
    Group(
        "RLV105",
        "reaches the network outside the journal",
        """urllib.request.urlopen urllib.request.urlretrieve urllib.request.OpenerDirector.open
        socket.create_connection socket.create_server socket.getaddrinfo socket.gethostbyname
        socket.gethostbyname_ex socket.gethostbyaddr socket.getnameinfo socket.fromfd
        socket.socket.connect socket.socket.connect_ex socket.socket.send socket.socket.sendall
        socket.socket.sendto socket.socket.recv socket.socket.recv_into socket.socket.recvfrom
        socket.socket.accept socket.socket.listen socket.socket.bind socket.socket.makefile
        http.client.HTTPConnection.request http.client.HTTPConnection.connect
        http.client.HTTPConnection.getresponse http.client.HTTPConnection.send
        http.client.HTTPSConnection.request http.client.HTTPSConnection.connect
        http.client.HTTPSConnection.getresponse http.client.HTTPSConnection.send
        asyncio.open_connection asyncio.start_server asyncio.open_unix_connection
        asyncio.AbstractEventLoop.create_connection asyncio.AbstractEventLoop.getaddrinfo
        smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP ftplib.FTP_TLS imaplib.IMAP4 imaplib.IMAP4_SSL
        poplib.POP3 poplib.POP3_SSL telnetlib.Telnet xmlrpc.client.ServerProxy.* webbrowser.open
        webbrowser.open_new webbrowser.open_new_tab socketserver.TCPServer
        http.server.HTTPServer select.select""",
    ),
    Group("RLV105", "opens a database outside the journal", "sqlite3.connect dbm.open shelve.open"),
    Group(
        "RLV105",
        "reads or writes a database outside the journal",
        """sqlite3.Connection.* sqlite3.Cursor.* shelve.Shelf.*""",
        pure="""sqlite3.Connection.cursor sqlite3.Connection.close
        sqlite3.Connection.row_factory sqlite3.Connection.total_changes
        sqlite3.Connection.in_transaction sqlite3.Connection.isolation_level
        sqlite3.Connection.text_factory sqlite3.Connection.create_function
        sqlite3.Connection.set_trace_callback sqlite3.Cursor.close sqlite3.Cursor.description
        sqlite3.Cursor.rowcount sqlite3.Cursor.lastrowid shelve.Shelf.close""",
    ),
    Group(
        "RLV105",
        "talks to a server outside the journal",
        """smtplib.SMTP.* smtplib.SMTP_SSL.* ftplib.FTP.* ftplib.FTP_TLS.* imaplib.IMAP4.*
        imaplib.IMAP4_SSL.* asyncio.Stream.*""",
        pure="""smtplib.SMTP.quit smtplib.SMTP_SSL.quit smtplib.SMTP.close ftplib.FTP.close
        ftplib.FTP.quit""",
    ),
    Group(
        "RLV107",
        "touches the file system outside the journal",
        """builtins.open io.open io.open_code os.open os.fdopen codecs.open gzip.open bz2.open
        lzma.open gzip.GzipFile bz2.BZ2File lzma.LZMAFile zipfile.ZipFile tarfile.open
        zipfile.ZipFile.extract zipfile.ZipFile.extractall tarfile.TarFile.extract
        tarfile.TarFile.extractall tarfile.TarFile tarfile.TarFile.open tokenize.open fileinput.input fileinput.FileInput
        mmap.mmap os.listdir os.scandir os.walk os.fwalk os.remove os.unlink os.rename
        os.renames os.replace os.mkdir os.makedirs os.rmdir os.removedirs os.stat os.lstat
        os.statvfs os.access os.chmod os.chown os.link os.symlink os.readlink os.truncate
        os.utime os.read os.write os.mkfifo os.chdir os.chroot os.path.exists os.path.lexists
        os.path.isfile os.path.isdir os.path.islink os.path.ismount os.path.getsize
        os.path.getmtime os.path.getatime os.path.getctime os.path.samefile glob.glob glob.iglob
        shutil.* tempfile.* filecmp.cmp filecmp.cmpfiles filecmp.dircmp linecache.getline
        configparser.ConfigParser.read configparser.RawConfigParser.read
        logging.config.fileConfig netrc.netrc zoneinfo.ZoneInfo.from_file dbm.dumb.open
        plistlib.writePlist plistlib.readPlist runpy.run_path importlib.resources.read_text
        importlib.resources.read_binary importlib.resources.open_text
        importlib.resources.open_binary pkgutil.get_data xml.etree.ElementTree.parse""",
        pure="""shutil.get_terminal_size shutil.Error shutil.SameFileError shutil.ignore_patterns
        tempfile.TemporaryDirectory.* tempfile.NamedTemporaryFile.* tempfile.TemporaryFile.*
        tempfile.SpooledTemporaryFile.* tempfile.tempdir""",
    ),
    Group(
        "RLV107",
        "touches the file system outside the journal",
        " ".join(
            f"pathlib.Path.{name}"
            for name in words(
                """chmod cwd exists expanduser glob group hardlink_to home is_block_device
    is_char_device is_dir is_fifo is_file is_junction is_mount is_socket is_symlink
    iterdir lchmod link_to lstat mkdir open owner read_bytes read_link readlink
    read_text rename replace resolve rglob rmdir samefile stat symlink_to touch unlink
    walk write_bytes write_text copy copy_into move move_into"""
            )
        ),
    ),
    Group(
        "RLV108",
        "depends on the host it runs on",
        """os.getenv os.getenvb os.putenv os.unsetenv os.getcwd os.getcwdb os.getpid os.getppid
        os.getpgid os.getpgrp os.getsid os.getlogin os.getuid os.geteuid os.getgid os.getegid
        os.getgroups os.cpu_count os.process_cpu_count os.uname os.getloadavg
        os.sched_getaffinity os.get_terminal_size os.confstr os.sysconf os.environ.*
        os.environb.* os.get_exec_path os.umask os.ctermid os.ttyname socket.gethostname
        socket.getfqdn platform.* getpass.getuser locale.* sysconfig.* site.getuserbase
        site.getusersitepackages shutil.get_terminal_size multiprocessing.cpu_count
        threading.get_ident threading.get_native_id threading.current_thread
        threading.main_thread threading.active_count resource.getrusage sys.getsizeof
        sys.getrefcount sys.exc_clear sys.getfilesystemencoding sys.getdefaultencoding
        sys.getwindowsversion gc.get_objects gc.get_count time.tzset""",
        pure="locale.Error locale.LC_ALL locale.strxfrm",
    ),
    Group(
        "RLV109",
        "starts a process outside the journal",
        """subprocess.* os.system os.popen os.fork os.forkpty os.posix_spawn os.posix_spawnp
        os.startfile os.kill os.killpg os.wait os.waitpid os.abort os.execl os.execle os.execlp
        os.execlpe os.execv os.execve os.execvp os.execvpe os.spawnl os.spawnle os.spawnlp
        os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe asyncio.create_subprocess_exec
        asyncio.create_subprocess_shell asyncio.AbstractEventLoop.subprocess_exec
        asyncio.AbstractEventLoop.subprocess_shell pty.spawn pty.fork multiprocessing.Process
        multiprocessing.Pool multiprocessing.Manager multiprocessing.pool.Pool
        multiprocessing.managers.SyncManager multiprocessing.context.Process""",
        pure="""subprocess.CalledProcessError subprocess.TimeoutExpired
        subprocess.SubprocessError subprocess.CompletedProcess subprocess.list2cmdline
        subprocess.PIPE subprocess.DEVNULL subprocess.STDOUT subprocess.Popen.*""",
    ),
    Group(
        "RLV110",
        "runs work outside the engine's scheduler",
        """threading.Thread threading.Timer _thread.start_new_thread
        concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
        concurrent.futures.InterpreterPoolExecutor concurrent.futures.thread.ThreadPoolExecutor
        concurrent.futures.process.ProcessPoolExecutor multiprocessing.pool.ThreadPool
        multiprocessing.dummy.Pool asyncio.to_thread asyncio.AbstractEventLoop.run_in_executor
        asyncio.run_coroutine_threadsafe""",
    ),
    Group(
        "RLV111",
        "runs code that is not in the source",
        """builtins.eval builtins.exec builtins.compile builtins.__import__
        importlib.import_module importlib.__import__ importlib.reload runpy.run_module
        code.interact types.FunctionType types.CodeType""",
    ),
    Group(
        "RLV112",
        "waits for a person at a terminal",
        """builtins.input builtins.breakpoint getpass.getpass pdb.set_trace pdb.post_mortem
        sys.breakpointhook sys.stdin.read sys.stdin.readline sys.stdin.readlines
        sys.stdin.buffer.read code.interact""",
    ),
    Group("RLV113", "is repeated on every replay", "builtins.print pprint.pprint pprint.pp", "no-buffer"),
    Group(
        "RLV113",
        "is repeated on every replay",
        """sys.stdout.write sys.stderr.write
        sys.stdout.writelines sys.stderr.writelines sys.__stdout__.write sys.__stderr__.write
        logging.debug logging.info logging.warning logging.warn logging.error logging.critical
        logging.exception logging.log traceback.print_exc traceback.print_exception
        traceback.print_stack traceback.print_tb syslog.syslog"""
        + " "
        + " ".join(
            f"logging.{kind}.{level}"
            for kind in ("Logger", "LoggerAdapter")
            for level in words("debug info warning warn error critical exception log fatal")
        ),
    ),
    Group(
        "RLV206",
        "without `tz` uses the time zone of the host",
        "datetime.datetime.fromtimestamp",
        "no-tz",
    ),
    Group(
        "RLV206",
        "uses the time zone of the host",
        "datetime.date.fromtimestamp time.localtime time.mktime",
        "some-args",
    ),
    Group(
        "RLV208",
        "holds paths and line numbers that change with every deploy",
        """traceback.format_exc traceback.format_exception traceback.format_tb
        traceback.format_stack traceback.format_list traceback.extract_tb
        traceback.extract_stack traceback.walk_tb traceback.TracebackException
        traceback.TracebackException.from_exception traceback.StackSummary.extract""",
    ),
)

READS: Final = (
    Group(
        "RLV108",
        "depends on the host it runs on",
        """os.environ os.environb sys.argv sys.orig_argv sys.executable sys.platform sys.path
        sys.prefix sys.base_prefix sys.exec_prefix""",
    ),
)

_ENCODERS: Final = """base64.b64encode base64.b64decode base64.urlsafe_b64encode base64.urlsafe_b64decode
gzip.compress gzip.decompress zlib.compress zlib.decompress pickle.dumps struct.pack"""
# Names that only build something: their result is an instance of the type on the right.
RESULTS: Final = {
    "logging.getLogger": "logging.Logger",
    "asyncio.get_event_loop": "asyncio.AbstractEventLoop",
    "asyncio.get_running_loop": "asyncio.AbstractEventLoop",
    "asyncio.new_event_loop": "asyncio.AbstractEventLoop",
    "asyncio.open_connection": "asyncio.Streams",
    "asyncio.open_unix_connection": "asyncio.Streams",
    "shelve.open": "shelve.Shelf",
    "sqlite3.connect": "sqlite3.Connection",
    "sqlite3.Connection.cursor": "sqlite3.Cursor",
    "sqlite3.Connection.execute": "sqlite3.Cursor",
    "urllib.request.urlopen": "http.client.HTTPResponse",
    "urllib.request.build_opener": "urllib.request.OpenerDirector",
    "tarfile.open": "tarfile.TarFile",
    "gzip.open": "io.IOBase",
    "codecs.open": "io.IOBase",
    "tempfile.NamedTemporaryFile": "io.IOBase",
    "tempfile.TemporaryFile": "io.IOBase",
    "os.fdopen": "io.IOBase",
    "socket.create_connection": "socket.socket",
    "socket.socket.makefile": "io.IOBase",
    "random.Random": "random.Random",
    "datetime.datetime.now": "datetime.datetime",
    "datetime.datetime.utcnow": "datetime.datetime",
    "datetime.datetime.today": "datetime.datetime",
    "datetime.datetime.fromtimestamp": "datetime.datetime",
    "datetime.datetime.fromisoformat": "datetime.datetime",
    "datetime.datetime.strptime": "datetime.datetime",
    "datetime.date.today": "datetime.date",
    "time.time": "builtins.float",
    "random.random": "builtins.float",
    "random.uniform": "builtins.float",
    "time.time_ns": "builtins.int",
    "random.randint": "builtins.int",
    "random.randrange": "builtins.int",
    "uuid.uuid1": "uuid.UUID",
    "uuid.uuid4": "uuid.UUID",
    "os.urandom": "builtins.bytes",
    "secrets.token_bytes": "builtins.bytes",
    "secrets.token_hex": "builtins.str",
    "pathlib.Path.read_bytes": "builtins.bytes",
    "io.RawIOBase.read": "builtins.bytes",
    "io.RawIOBase.readline": "builtins.bytes",
    "pathlib.Path.read_text": "builtins.str",
    "os.getenv": "builtins.str",
    **{f"hashlib.{name}": "hashlib.Hash" for name in words("sha256 sha1 md5 blake2b new")},
    "hashlib.Hash.digest": "builtins.bytes",
    "hashlib.Hash.hexdigest": "builtins.str",
    "sys.exc_info": "sys.exc_info",
    "builtins.str.encode": "builtins.bytes",
    "builtins.bytes": "builtins.bytes",
    "builtins.bytearray": "builtins.bytes",
    **dict.fromkeys(words(_ENCODERS), "builtins.bytes"),
    "re.compile": "re.Pattern",
    "threading.local": "threading.local",
    "multiprocessing.get_context": "multiprocessing",
    "contextlib.suppress": "contextlib.suppress",
    "contextlib.ExitStack": "contextlib.ExitStack",
    "contextlib.AsyncExitStack": "contextlib.ExitStack",
    "asyncio.timeout": "asyncio.Timeout",
    "asyncio.timeout_at": "asyncio.Timeout",
}

# Types whose instances are followed. Calling one makes an instance and does nothing else.
TYPES: Final = names("""pathlib.Path pathlib.PurePath pathlib.PosixPath pathlib.PurePosixPath
    pathlib.WindowsPath pathlib.PureWindowsPath datetime.datetime datetime.date
    datetime.timedelta datetime.time datetime.timezone random.Random random.SystemRandom
    socket.socket http.client.HTTPConnection http.client.HTTPSConnection
    http.client.HTTPResponse uuid.UUID threading.Lock threading.RLock threading.Event
    threading.Condition threading.Semaphore asyncio.Lock asyncio.Event asyncio.Semaphore
    asyncio.Queue asyncio.Condition asyncio.TaskGroup asyncio.AbstractEventLoop
    contextvars.ContextVar itertools.count itertools.cycle io.StringIO io.BytesIO
    io.IOBase zipfile.ZipFile tarfile.TarFile tempfile.TemporaryDirectory
    concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
    logging.Logger logging.LoggerAdapter threading.local xmlrpc.client.ServerProxy
    shelve.Shelf configparser.ConfigParser configparser.RawConfigParser smtplib.SMTP
    smtplib.SMTP_SSL ftplib.FTP imaplib.IMAP4 urllib.request.OpenerDirector
    types.SimpleNamespace decimal.Decimal fractions.Fraction queue.Queue
    queue.SimpleQueue sched.scheduler subprocess.Popen threading.Thread threading.Timer
    multiprocessing.Process traceback.TracebackException""")

# Members that keep the type of their instance.
SAME_TYPE: Final = {
    "pathlib.Path": words(
        """parent absolute with_suffix with_name with_stem with_segments joinpath relative_to
    resolve expanduser cwd home rename replace readlink __truediv__ __rtruediv__"""
    ),
    "pathlib.PurePath": words(
        """parent with_suffix with_name with_stem joinpath relative_to __truediv__ __rtruediv__"""
    ),
    "datetime.datetime": words(
        """replace astimezone combine __add__ __sub__ __radd__ fromtimestamp fromisoformat
    strptime now utcnow today"""
    ),
    "datetime.date": words("replace __add__ __sub__ today fromisoformat fromtimestamp"),
    "logging.Logger": ["getChild"],
}

# Attributes, not calls, that give an instance of the type.
MEMBERS: Final = {
    "pathlib.Path.parent": "pathlib.Path",
    "pathlib.PurePath.parent": "pathlib.PurePath",
}

# Iterating over an instance, or over what the member gives, yields instances of the type.
ELEMENTS: Final = {
    "asyncio.Streams": "asyncio.Stream",
    "pathlib.Path.iterdir": "pathlib.Path",
    "pathlib.Path.glob": "pathlib.Path",
    "pathlib.Path.rglob": "pathlib.Path",
    "pathlib.Path.parents": "pathlib.Path",
}

# Other names for the same thing.
ALIASES: Final = {
    "posixpath": "os.path",
    "ntpath": "os.path",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "pathlib.PurePosixPath": "pathlib.PurePath",
    "pathlib.PureWindowsPath": "pathlib.PurePath",
    "concurrent.futures.thread": "concurrent.futures",
    "concurrent.futures.process": "concurrent.futures",
    "asyncio.tasks": "asyncio",
    "asyncio.locks": "asyncio",
    "asyncio.taskgroups": "asyncio",
    "asyncio.timeouts": "asyncio",
    "asyncio.exceptions": "asyncio",
    "asyncio.subprocess": "asyncio",
    "asyncio.events": "asyncio",
    "random._inst": "random",
    "typing.Set": "builtins.set",
    "typing.FrozenSet": "builtins.frozenset",
    "typing.AbstractSet": "builtins.set",
    "typing.MutableSet": "builtins.set",
    "collections.abc.Set": "builtins.set",
    "collections.abc.MutableSet": "builtins.set",
    "typing.List": "builtins.list",
    "typing.Dict": "builtins.dict",
    "typing.Tuple": "builtins.tuple",
    "multiprocessing.context": "multiprocessing",
    "multiprocessing.process": "multiprocessing",
    "os.posix_environ": "os.environ",
}
