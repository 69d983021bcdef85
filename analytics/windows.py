from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

WINDOWS_MAX = 120
WIDTHS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400, 604_800)


def window_of(frame: DataFrame, column: str) -> Column:
    low, high = frame.agg(F.min(column), F.max(column)).collect()[0]
    span_s = 0.0 if low is None else (high - low) / 1e9
    width_s = next((w for w in WIDTHS_S if span_s / w <= WINDOWS_MAX), WIDTHS_S[-1])
    width_ns = int(width_s * 1e9)
    return F.timestamp_micros(F.floor(F.col(column) / width_ns) * (width_ns // 1_000))
