"""What users import: client, subscription, group member, embedded node, sync facade."""
