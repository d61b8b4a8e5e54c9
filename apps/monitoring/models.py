"""Readings of GPUs over time."""

from django.db import models


class GpuSample(models.Model):
    """One reading of one GPU; null means unknown, never zero."""

    id = models.BigAutoField(primary_key=True)
    gpu_uuid = models.CharField(max_length=64)
    at = models.DateTimeField()
    utilisation_percent = models.FloatField(null=True)
    memory_used_mib = models.FloatField(null=True)
    temperature_celsius = models.FloatField(null=True)
    power_watts = models.FloatField(null=True)
    sm_clock_mhz = models.FloatField(null=True)

    class Meta:
        indexes = [models.Index(fields=["gpu_uuid", "-at"], name="gpu_sample_recent")]

    def __str__(self) -> str:
        return f"{self.gpu_uuid} {self.at:%T}"
