"""Names of the commands that the server carries out."""

RUN = "rulvar.replayStrict"
CANCEL = "rulvar.cancelRun"
EXPLAIN = "rulvar.explainMiss"
OPEN = "rulvar.openFile"
SHOW_RESULT = "rulvar.showResult"
COMMANDS = (RUN, CANCEL, EXPLAIN, OPEN, SHOW_RESULT)
