"""Follows a store with Structured Streaming until it is killed: stream_follower.py URL FOLDER."""

import sys

from pyspark.errors import StreamingQueryException

from gossamer.analytics.session import session

url, folder = sys.argv[1:]
spark = session("local[2]", config={"spark.driver.memory": "1g"})
stream = spark.readStream.format("gossamer").options(store=url, columns="stream,seq,store").load()
writer = stream.writeStream.format("parquet").trigger(processingTime="200 milliseconds")
writer = writer.options(path=f"{folder}/out", checkpointLocation=f"{folder}/checkpoint")
while True:
    try:
        writer.start().awaitTermination()
    except StreamingQueryException as error:
        # Spark gives a Python process ten seconds to start, which a crowded machine may not have.
        if "failed to connect back" not in str(error):
            raise
