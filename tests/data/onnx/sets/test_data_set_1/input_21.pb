B
float4e2m1JgÇÇ