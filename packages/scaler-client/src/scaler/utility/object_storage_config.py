"""An earlier place of this name."""

from scaler.config.types.object_storage_server import ObjectStorageConfig

__all__ = ["ObjectStorageConfig"]
