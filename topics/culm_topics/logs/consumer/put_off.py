"""Records that came while heights are still raised, perhaps of these very logs; their partitions pause."""

from collections import deque

from confluent_kafka import Consumer, Message, TopicPartition


class PutOff:
    """What is looked at once no partition raises heights any more; bounded by what one batch holds."""

    def __init__(self, client: Consumer, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._messages: deque[Message] = deque()
        self._paused: set[int] = set()

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, partition: int) -> bool:
        """Whether records of this partition are kept: later ones must not overtake them."""
        return partition in self._paused

    def add(self, message: Message, partition: int) -> None:
        """Keep the record, and take no more of its partition."""
        self._messages.append(message)
        if partition not in self._paused:
            self._client.pause([TopicPartition(self._topic, partition)])
            self._paused.add(partition)

    def take(self) -> deque[Message]:
        """Everything kept, in the order in which it came; the partitions go on."""
        messages, self._messages = self._messages, deque()
        if self._paused:
            self._client.resume([TopicPartition(self._topic, partition) for partition in self._paused])
            self._paused.clear()
        return messages

    def forget(self, gone: frozenset[int]) -> None:
        """These partitions are another member's now."""
        self._paused -= gone
        self._messages = deque(message for message in self._messages if message.partition() not in gone)
