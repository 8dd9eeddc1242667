"""The migration of a training script from DataParallel to DistributedDataParallel, part by part."""
