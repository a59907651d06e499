"""Names of the commands that the server carries out."""

RUN = "rulvar.replayStrict"
RUN_RECORDED = "rulvar.replayRecorded"
RECORD = "rulvar.record"
CANCEL = "rulvar.cancelRun"
EXPLAIN = "rulvar.explainMiss"
OPEN = "rulvar.openFile"
SHOW_RESULT = "rulvar.showResult"
SHOW_DIAGRAM = "rulvar.showDiagram"
COMMANDS = (RUN, RUN_RECORDED, RECORD, CANCEL, EXPLAIN, OPEN, SHOW_RESULT, SHOW_DIAGRAM)
